"""`gradwatch.coordinate_check` of torch modules: sizes and slopes against NumPy."""

import numpy as np
import pytest
import torch

import gradwatch
from gradwatch.inspection import LayerScaling, Slope

nn = torch.nn
CROSS_ENTROPY = nn.functional.cross_entropy
BASE = 32


def batch():
    random = torch.Generator().manual_seed(0)
    return torch.randn(32, 16, generator=random), torch.randint(0, 10, (32,), generator=random)


def standard(width):
    module = nn.Sequential(
        nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
    )
    return module, torch.optim.Adam(module.parameters(), lr=1e-2)


class Readout(nn.Linear):
    """The output of muP: divided by the width."""

    def forward(self, x):
        return super().forward(x * BASE / self.in_features)


def mup(width):
    """As `standard`, with hidden learning rates and the output divided by the width."""
    module = nn.Sequential(
        nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), Readout(width, 10)
    )
    hidden = module[2].weight
    rest = [p for p in module.parameters() if p is not hidden]
    groups = [{"params": [hidden], "lr": 1e-2 * BASE / width}, {"params": rest, "lr": 1e-2}]
    return module, torch.optim.Adam(groups)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_standard_parametrisation_is_flagged_and_mup_is_not(seed):
    widths = [32, 64, 128, 256]
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        found = gradwatch.coordinate_check(
            standard, widths, batch(), loss=CROSS_ENTROPY, repeats=2, show=False
        )
        scaled = gradwatch.coordinate_check(
            mup, widths, batch(), loss=CROSS_ENTROPY, repeats=2, show=False
        )
    assert not found.ok
    assert {"2", "4"} <= {layer.path for layer in found.of("grows")}
    assert scaled.ok
    assert [layer.scaling for layer in scaled.layers[:4]] == ["stays"] * 4


def test_sizes_are_the_mean_absolute_outputs_of_each_step():
    """Two linear layers under SGD, in float64 NumPy."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 2))
    widths, steps, rate = [4, 6, 9], 3, 0.1
    weights = {w: (rng.normal(size=(w, 3)), rng.normal(size=(2, w)) / w) for w in widths}

    def make(width):
        module = nn.Sequential(nn.Linear(3, width, bias=False), nn.Linear(width, 2, bias=False))
        with torch.no_grad():
            for layer, values in zip(module, weights[width], strict=True):
                layer.weight.copy_(torch.tensor(values))
        return module.double(), torch.optim.SGD(module.parameters(), lr=rate)

    with torch.random.fork_rng():
        found = gradwatch.coordinate_check(
            make,
            widths[::-1],
            (torch.tensor(x), torch.tensor(y)),
            loss=nn.functional.mse_loss,
            steps=steps,
            repeats=1,
            show=False,
        )
    true = np.empty((2, steps, len(widths), 1))
    for place, width in enumerate(widths):
        # torch's parameters are of float32 before the module is made float64.
        first, second = (w.astype(np.float32).astype(np.float64) for w in weights[width])
        for step in range(steps):
            hidden = x @ first.T
            output = hidden @ second.T
            true[:, step, place, 0] = np.abs(hidden).mean(), np.abs(output).mean()
            delta = 2 * (output - y) / y.size
            first, second = (
                first - rate * (delta @ second).T @ x,
                second - rate * delta.T @ hidden,
            )
    assert [layer.path for layer in found.layers] == ["0", "1"]
    for layer, sizes in zip(found.layers, true, strict=True):
        np.testing.assert_allclose(layer.sizes, sizes, rtol=1e-9)
        for slope, own in zip(layer.slopes, sizes[:, :, 0], strict=True):
            fit, cov = np.polyfit(np.log2(widths), np.log2(own), 1, cov=True)
            assert (slope.value, slope.error) == pytest.approx((fit[0], np.sqrt(cov[0, 0])))
    assert found.widths == (4, 6, 9)
    assert found.to_dict()["layers"][1]["sizes"] == found.layers[1].sizes.tolist()


@pytest.mark.parametrize(
    ("powers", "scaling"),
    [
        ((0.0, 0.0), "stays"),
        ((-0.5, 0.05), "stays"),
        ((0.0, 0.3), "grows"),
        ((0.3, 0.0), "stays"),  # At initialisation only.
        ((0.0, -0.3), "shrinks"),
        ((0.0, np.nan), "unclear"),
        ((0.0, np.inf), "grows"),
    ],
)
def test_what_a_power_of_the_width_is_called(powers, scaling):
    widths = [10, 20, 40, 80]
    sizes = np.array([[[float(w) ** p] for w in widths] for p in powers])
    sizes = np.where(np.isnan(sizes), 0.0, sizes)
    layer = LayerScaling.of("a", widths, sizes, 0.15)
    assert layer.scaling == scaling
    if np.isfinite(powers[1]):
        assert layer.steepest.value == pytest.approx(powers[1], abs=1e-9)


def test_a_slope_that_is_uncertain_is_not_called_growth():
    sizes = np.array([[1.0, 4.0], [1.0, 4.0], [2.0, 4.0]])
    slope = Slope.of([1, 2, 4], sizes)
    assert slope.value > 0.15 > slope.least
    assert LayerScaling.of("a", [1, 2, 4], np.stack([sizes, sizes]), 0.15).scaling == "stays"


def test_it_prints_a_table_and_draws_a_plot(capsys):
    plt = pytest.importorskip("matplotlib.pyplot")

    def make(width):
        module = nn.Linear(2, width)
        with torch.no_grad():
            module.weight.fill_(float(width))
            module.bias.zero_()
        return module, torch.optim.SGD(module.parameters(), lr=0.0)

    data = torch.ones(1, 2), None
    found = gradwatch.coordinate_check(
        make, [2, 4, 8], data, loss=lambda output, _: output.sum(), steps=2, repeats=1
    )
    shown = capsys.readouterr().out
    assert shown == f"{found}\n"
    title, header, row = shown.splitlines()
    assert title.endswith("1 layer grows with width")
    assert header.split()[3:9] == ["width", "2", "width", "4", "width", "8"]
    assert row.split() == ["linear", "4.00", "8.00", "16.0", "+1.00", "+1.00", "0", "grows"]
    axes = found.plot()
    (line,) = axes.get_lines()
    assert line.get_xdata().tolist() == [2, 4, 8]
    assert line.get_ydata().tolist() == [4, 8, 16]
    plt.close(axes.figure)
    with pytest.raises(ValueError, match=r"from 1 to 2\. Received: 3"):
        found.plot(3)


def test_inputs_can_be_several_arguments_by_order_or_name():
    class Sum(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = nn.Linear(3, width)

        def forward(self, a, b):
            return self.inner(a + b)

    def make(width):
        module = Sum(width)
        return module, torch.optim.SGD(module.parameters(), lr=0.1)

    a, b = torch.ones(2, 3), torch.zeros(2, 3)
    for inputs in ((a, b), {"a": a, "b": b}):
        found = gradwatch.coordinate_check(
            make, [2, 4, 8], (inputs, None), loss=lambda x, _: x.square().mean(), show=False
        )
        assert found.layers[0].sizes.shape == (4, 3, 3)


def test_mistakes_are_explained():
    data = batch()
    check = gradwatch.coordinate_check
    with pytest.raises(ValueError, match=r"at least three different ones\. Received: \[8, 16, 8"):
        check(standard, [8, 16, 8], data, loss=CROSS_ENTROPY)
    with pytest.raises(ValueError, match=r"steps must be >= 2.*steps=1"):
        check(standard, [8, 16, 32], data, loss=CROSS_ENTROPY, steps=1)
    with pytest.raises(ValueError, match="a pair of inputs and targets"):
        check(standard, [8, 16, 32], data[0], loss=CROSS_ENTROPY)
    with pytest.raises(ValueError, match="needs a loss"):
        check(standard, [8, 16, 32], data)
    with pytest.raises(TypeError, match=r"pair of a torch\.nn\.Module.*Received: Sequential"):
        check(lambda width: standard(width)[0], [8, 16, 32], data, loss=CROSS_ENTROPY)
    with pytest.raises(TypeError, match="make_model="):
        check(model=standard, widths=[8, 16, 32], batch=data)

    def deeper(width):
        module = nn.Sequential(*[nn.Linear(16, 16) for _ in range(width)])
        return module, torch.optim.SGD(module.parameters(), lr=0.1)

    with pytest.raises(ValueError, match=r"first has 2 outputs of layers, one of width 3 has 3"):
        check(deeper, [2, 3, 4], data, loss=CROSS_ENTROPY)
