# SPDX-License-Identifier: Apache-2.0
"""The recipes RESNET, RESNET50 and PICTURE_BOUND of jobs.py in PyTorch on the GPU. Prints one line of JSON.

usage: torch_peer.py rate [--model resnet18] [--batch 64] [--autocast] [--lr 0.001] [--weight-decay 0] [--compile]
                                                              a ResNet, whose pictures need no loading
       torch_peer.py trace FILE [as rate]                     the same under torch.profiler
       torch_peer.py pictures [--batch 64] [--workers 8]      large pictures, made by a DataLoader

--device cpu and --seconds are for a rehearsal without a GPU.
"""

import argparse
import itertools
import json
import time

STEPS, WARMUP = 10, 5


def basic_block(torch, inputs, outputs, stride):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.bn2(self.conv2(y))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    return Block()


def bottleneck(torch, inputs, width, stride):
    nn = torch.nn
    outputs = 4 * width

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(outputs)
            self.relu = nn.ReLU(inplace=True)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                                                nn.BatchNorm2d(outputs))

        def forward(self, x):
            y = self.relu(self.bn1(self.conv1(x)))
            y = self.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return self.relu(y + (x if self.downsample is None else self.downsample(x)))

    return Block()


def resnet(torch, name):
    """ResNet-18 or ResNet-50 as torchvision has them."""
    nn = torch.nn
    block, growth, depths = (basic_block, 1, (2, 2, 2, 2)) if name == "resnet18" else (bottleneck, 4, (3, 4, 6, 3))
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for width, stride, depth in zip((64, 128, 256, 512), (1, 2, 2, 2), depths):
        for number in range(depth):
            layers.append(block(torch, channels, width, stride if number == 0 else 1))
            channels = growth * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))


def resnet_batches(torch, batch, is_pinned):
    """As much as a loader would have ready: batches in page-locked memory."""
    ready = [(torch.rand(batch, 3, 224, 224), torch.arange(batch) % 1000) for _ in range(4)]
    if is_pinned:
        ready = [tuple(part.pin_memory() for part in parts) for parts in ready]
    return itertools.cycle(ready)


def pooling_cnn(torch):
    nn = torch.nn
    layers = [nn.Conv2d(3, 30, 3, padding=1), nn.ReLU()]
    for _ in range(8):  # 256 pixels to one
        layers += [nn.Conv2d(30, 30, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(30, 10, 3, padding=1), nn.Flatten())


def picture_batches(torch, batch, workers, is_pinned):
    """Crops of 256 x 256 in colours of YUV, made by the workers of a DataLoader, again and again."""
    stored = torch.randint(0, 256, (512, 3, 320, 320), dtype=torch.uint8)
    matrix = torch.tensor([[0.299, 0.587, 0.114], [-0.16874, -0.33126, 0.5], [0.5, -0.41869, -0.08131]])
    offset = torch.tensor([0.0, 128.0, 128.0])[:, None, None]

    class Pictures(torch.utils.data.Dataset):
        def __len__(self):
            return len(stored)

        def __getitem__(self, number):
            top, left = torch.randint(0, 65, (2,)).tolist()
            pixels = stored[number, :, top:top + 256, left:left + 256].float()
            return (torch.tensordot(matrix, pixels, dims=1) + offset) * (1 / 255), number % 10

    # Forked: the class above cannot be sent to processes that start anew, and they do not use the GPU.
    of_workers = {"multiprocessing_context": "fork", "persistent_workers": True} if workers > 0 else {}
    loader = torch.utils.data.DataLoader(Pictures(), batch_size=batch, shuffle=True, drop_last=True, num_workers=workers,
                                         pin_memory=is_pinned, **of_workers)
    while True:
        yield from loader


class Job:
    def __init__(self, torch, model, batches, given):
        self.torch = torch
        self.device = given.device
        self.model = model.to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=given.lr, momentum=0.9,
                                         weight_decay=given.weight_decay)
        self.batches = batches
        self.has_autocast = given.autocast
        self.scaler = torch.amp.GradScaler(self.device, enabled=given.autocast)  # which else does nothing
        self.loss = torch.compile(self.loss_of) if given.compile else self.loss_of
        self.copies = torch.cuda.Stream() if self.device == "cuda" else None
        self.ready = None

    def loss_of(self, pictures, labels):
        with self.torch.autocast(self.device, self.torch.float16, enabled=self.has_autocast):
            return self.torch.nn.functional.cross_entropy(self.model(pictures), labels)

    def fetch(self):
        parts = next(self.batches)
        if self.copies is None:
            return parts
        with self.torch.cuda.stream(self.copies):
            return tuple(part.to(self.device, non_blocking=True) for part in parts)

    def step(self):
        pictures, labels = self.ready or self.fetch()
        if self.copies is not None:
            stream = self.torch.cuda.current_stream()
            stream.wait_stream(self.copies)
            for part in (pictures, labels):
                part.record_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(self.loss(pictures, labels)).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        # Copied beside the step, whose kernels are under way.
        self.ready = self.fetch()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["rate", "trace", "pictures"])
    parser.add_argument("file", nargs="?")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--model", choices=["resnet18", "resnet50"], default="resnet18")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--lr", type=float, default=0.001)
    parser.add_argument("--weight-decay", type=float, default=0.0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args()
    import torch

    is_gpu = given.device == "cuda"
    if is_gpu and not torch.cuda.is_available():
        raise SystemExit("torch sees no GPU")
    synchronize = torch.cuda.synchronize if is_gpu else lambda: None
    torch.manual_seed(1)
    if given.what == "pictures":
        job = Job(torch, pooling_cnn(torch), picture_batches(torch, given.batch, given.workers, is_gpu), given)
    else:
        job = Job(torch, resnet(torch, given.model), resnet_batches(torch, given.batch, is_gpu), given)
    for _ in range(WARMUP):
        job.step()
    synchronize()
    if given.what != "trace":
        begin, steps = time.monotonic(), 0
        while time.monotonic() - begin < given.seconds:
            for _ in range(STEPS):
                job.step()
            synchronize()
            steps += STEPS
        seconds = time.monotonic() - begin
        print(json.dumps({"samples_per_second": steps * given.batch / seconds, "torch": torch.__version__}))
        return
    from torch.profiler import ProfilerActivity, profile, schedule

    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if is_gpu else [])],
                 schedule=schedule(wait=0, warmup=WARMUP, active=STEPS),
                 on_trace_ready=lambda done: done.export_chrome_trace(given.file)) as recording:
        for _ in range(WARMUP + STEPS):
            job.step()
            recording.step()
    print(json.dumps({"steps": STEPS, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
