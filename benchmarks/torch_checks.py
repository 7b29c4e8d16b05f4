"""What looking for NaN at every step adds to a torch loop on a CPU.

    python benchmarks/torch_checks.py

A small perceptron, a convolutional network and a transformer are trained bare; watched so that no
step is due, without a diagnosis; and the same with one, which looks for NaN at every step. Times
are of the thread that trains. Variants take turns; the sums are never left out here.
"""

import statistics
import tempfile
import time

import torch

import gradwatch
from gradwatch.capture.torch import finite_checks

STEPS, ROUNDS = 60, 7


def perceptron():
    net = torch.nn.Sequential(
        torch.nn.Linear(64, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 256),
        torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    )
    return net, torch.randn(64, 64), torch.randint(0, 10, (64,))


def convolutions():
    layers = []
    for inputs, outputs in [(3, 16), (16, 32), (32, 64)]:
        layers += [torch.nn.Conv2d(inputs, outputs, 3, padding=1), torch.nn.BatchNorm2d(outputs)]
        layers += [torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(64 * 16, 10))
    return net, torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))


def transformer():
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    net = torch.nn.Sequential(encoder, torch.nn.Flatten(), torch.nn.Linear(128 * 32, 10))
    return net, torch.randn(16, 32, 128), torch.randint(0, 10, (16,))


def milliseconds(make, options):
    torch.manual_seed(0)
    net, x, y = make()
    optimizer = torch.optim.Adam(net.parameters(), 1e-3)
    monitor = None
    if options is not None:
        directory = tempfile.mkdtemp()
        monitor = gradwatch.watch(net, optimizer, directory, every=10**9, sinks=[], **options)
    times = []
    for _ in range(STEPS):
        begin = time.thread_time()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        times.append(time.thread_time() - begin)
    if monitor is not None:
        monitor.close()
    return 1e3 * statistics.median(times[5:])


def main():
    torch.set_num_threads(1)
    finite_checks.FREE_SECONDS = float("inf")
    variants = {"bare": None, "never due": {"diagnose": False}, "looking for NaN": {}}
    for make in (perceptron, convolutions, transformer):
        rounds = [
            {name: milliseconds(make, options) for name, options in variants.items()}
            for _ in range(ROUNDS)
        ]
        print(make.__name__)
        for name in variants:
            times = statistics.median(each[name] for each in rounds)
            ratio = statistics.median(each[name] / each["bare"] for each in rounds)
            print(f"  {name:16} {times:8.3f} ms  {100 * (ratio - 1):+6.1f} %")


if __name__ == "__main__":
    main()
