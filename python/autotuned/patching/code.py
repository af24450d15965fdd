# SPDX-License-Identifier: Apache-2.0
"""The code to paste by hand, by knob, if its place in the script was not found."""

CODE = {
    "cudnn.benchmark": "torch.backends.cudnn.benchmark = True",
    "layout.memory_format": (
        "output = model(images.to(memory_format=torch.channels_last))  # not the parameters"
    ),
    "loader.native_threads": "autotuned.Loader.of(DataLoader(...), workers={code})",
    "loader.persistent_workers": "DataLoader(..., persistent_workers={code})",
    "loader.pin_memory": "DataLoader(..., pin_memory={code})",
    "loader.prefetch_batches": "DataLoader(..., prefetch_factor={code})",
    "loader.workers": "DataLoader(..., num_workers={code})",
    "memory.malloc": (
        "MALLOC_MMAP_THRESHOLD_=2147483647 MALLOC_TRIM_THRESHOLD_=2147483647 python {script}"
    ),
    "model.compile": 'model.compile(mode="{value}")  # before the optimizer is made',
    "optimizer.foreach": "the optimizer's argument foreach={code}",
    "optimizer.fused": "the optimizer's argument fused={code}",
    "optimizer.set_to_none": "optimizer.zero_grad(set_to_none=True)",
    "precision.autocast": (
        'with torch.autocast("{device}", dtype=torch.bfloat16):\n'
        "    output = model(...).float()  # the call alone: the loss is computed outside"
    ),
    "precision.tf32": 'torch.set_float32_matmul_precision("high")',
    "rewrite.gather": (
        "x[torch.arange(len(x)).unsqueeze(1), rows]"
        "  # not x.gather(1, rows.unsqueeze(-1).expand(...))"
    ),
    "threads.intra_op": "torch.set_num_threads({code})",
}
