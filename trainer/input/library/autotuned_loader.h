/* SPDX-License-Identifier: Apache-2.0 */
/* The input pipeline of recipes for any training loop: batches of samples, filled by threads, in memory that the
 * caller takes over. Plain C, in libautotuned_loader.so; python/autotuned/public/library.py calls it by ctypes.
 *
 * Failures: a function that takes `error` sets it to a text on failure and leaves it alone otherwise. The caller
 * frees the text with autotuned_loader_free_text(). It is null if there was no memory for it. Text is UTF-8, except that
 * names of files keep their bytes.
 * Threads: calls for one loader must not overlap. Any thread may give a tensor back, at any time, also after its loader was
 * closed.
 * Processes: a loader belongs to the process that opened it. In a child that was forked from it, start and next fail,
 * and closing and giving back do nothing. */
#ifndef AUTOTUNED_LOADER_H
#define AUTOTUNED_LOADER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AUTOTUNED_LOADER_API __attribute__((visibility("default")))

/* The version of this interface. A library with another number has other functions. */
#define AUTOTUNED_LOADER_INTERFACE 2
AUTOTUNED_LOADER_API int32_t autotuned_loader_interface(void);

/* A loader: a data set, its transforms, and the threads that work on them. */
typedef struct autotuned_loader autotuned_loader;

/* A tensor with the layout of DLPack's DLManagedTensor, to be consumed as one. The memory stays valid until `deleter` is
 * called with the tensor, which must be done once. */
typedef struct autotuned_loader_tensor {
  void* data;
  int32_t device_type; /* 1: memory of the host */
  int32_t device_id;
  int32_t dimensions;
  uint8_t type_code; /* 0: integers, 1: unsigned integers, 2: floats */
  uint8_t type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides; /* null: the last dimension is innermost, without gaps */
  uint64_t byte_offset;
  void* owner;
  void (*deleter)(struct autotuned_loader_tensor* tensor);
} autotuned_loader_tensor;

/* `images`: (samples, channels, rows, columns), float32, or uint8 if no transform makes floats. `targets`: class
 * numbers int64 (samples); numbers and tags float32 (samples, values); class masks uint8 (samples, rows, columns).
 * Only the last batch of an epoch may have fewer samples than batch_size. The caller owns both tensors separately. */
typedef struct autotuned_loader_batch {
  autotuned_loader_tensor* images;
  autotuned_loader_tensor* targets;
} autotuned_loader_batch;

/* Opens a loader. `settings` is a map in JSON or YAML. Relative paths are below the current folder.
 *
 *   data             as in a recipe, with its `shuffle` (docs/recipe.md). No tokens, no plugins
 *   input            transforms, as in a recipe ([]); pictures are decoded first, with or without `decode`
 *   batch_size       (1)
 *   drop_last        leave out the last batch of an epoch if it is not full (false)
 *   workers          threads; 0: autotuned_loader_next() does the work (0)
 *   prefetch_factor  batches that are ready for each worker (2)
 *   seed             of the order and of all random transforms (1)
 *   rank, ranks      the part of the samples, split like DistributedSampler (0 of 1)
 *   cache_bytes      memory for pictures in their form before the first random transform (0)
 *   index_bytes      memory for the index of JPEG files, with which only the crop is decoded (1 GiB)
 *   given_batches    the caller gives the samples of each batch: autotuned_loader_give() (false)
 *
 * The order and all draws are those of a trainer with the same data, seed, batch size, drop_last and ranks.
 * `description` is set to a map in JSON, freed as an error is: `samples` and `batches` of an epoch of this rank, and
 * `classes`, the names of classes or values, which is empty if the data have only numbers.
 * Returns null on failure: wrong settings, unusable files, no memory. */
AUTOTUNED_LOADER_API autotuned_loader* autotuned_loader_open(const char* settings,
                                                             char** description, char** error);

/* Sets the position of the next batch, in the order of this epoch, and starts the workers. Ready batches that come next
 * anyway are kept. Returns 1, or 0 on failure: a negative number, or a sample beyond the epoch.
 * With given_batches: batches that were given and not taken are forgotten, whatever the position. The function must be
 * called before the first batch is given. */
AUTOTUNED_LOADER_API int32_t autotuned_loader_start(autotuned_loader* loader, int64_t epoch,
                                                    int64_t sample, char** error);

/* With given_batches: gives the samples of the batch after those given before, in this order. `epoch` and `sample`, the
 * position of its first sample, decide the draws of its random transforms. The indices are copied. Returns 1, or 0 on
 * failure: no samples, more than batch_size of them, or one that the data do not have. */
AUTOTUNED_LOADER_API int32_t autotuned_loader_give(autotuned_loader* loader, int64_t epoch,
                                                   int64_t sample, const uint32_t* indices,
                                                   int64_t count, char** error);

/* Waits for the next batch. After the last batch of an epoch the next epoch begins. Returns 1, or 0 on failure: a file
 * that cannot be read or decoded, which the text names, after all batches before it; or no memory. The same failure is
 * returned until autotuned_loader_start(). */
AUTOTUNED_LOADER_API int32_t autotuned_loader_next(autotuned_loader* loader,
                                                   autotuned_loader_batch* batch, char** error);

/* Ends the threads. Tensors that are not given back yet stay valid. */
AUTOTUNED_LOADER_API void autotuned_loader_close(autotuned_loader* loader);

/* Calls the deleter of a tensor that nobody consumed. */
AUTOTUNED_LOADER_API void autotuned_loader_give_back(autotuned_loader_tensor* tensor);

/* Frees an error or a description; null is permitted. */
AUTOTUNED_LOADER_API void autotuned_loader_free_text(char* text);

#ifdef __cplusplus
}
#endif

#endif
