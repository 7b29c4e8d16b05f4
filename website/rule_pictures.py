"""Draw the pictures of the rules' pages, from trainings of the fault benchmark.

    python -m benchmarks.faults --folder FOLDER generate --seeds 0 PROGRAM...
    python -m website.rule_pictures FOLDER

Writes docs/images/rules/<rule>.png, and the section "Example" of docs/rules/<rule>.md. The names of
the programs are below; those of the other rules' pages have no picture.
"""

import sys
import textwrap
from pathlib import Path

import gradwatch
from gradwatch.diagnosis import diagnose

ROOT = Path(__file__).parents[1]
# By rule: the program, and what of it is drawn.
EXAMPLES = {
    "constant-output": ("one-unit-softmax-smooth-0", "output", "std"),
    "dead-units": ("dead-conv-0", "output", "l2"),
    "exploding-gradients": ("explode-residual-0", "output", "rms"),
    "learned-nothing": ("random-labels-words-0", "gradient", "l2"),
    "learning-rate-too-high": ("diverge-autoencoder-0", "update", "update_ratio"),
    "learning-rate-too-low": ("rate-low-blobs-0", "update", "update_ratio"),
    "loss-diverging": ("rate-high-rmsprop-0", "gradient", "l2"),
    "loss-spike": ("default-last-layer-lstm-0", "gradient", "l2"),
    "negative-loss": ("negative-mse-0", "gradient", "l2"),
    "non-finite": ("log-of-relu-mlp-0", "gradient", "l2"),
    "overfitting": ("overfit-waves-0", "gradient", "l2"),
    "saturated-activations": ("saturated-cnn-0", "gradient", "l2"),
    "stalled-weights": ("stalled-sgd-0", "update", "update_ratio"),
    "structural-mismatch": ("zero-start-moons-0", "gradient", "l2"),
    "vanishing-gradients": ("vanish-sigmoid-10-0", "gradient", "l2"),
    "zero-gradients": ("gradient-stopped-0", "gradient", "l2"),
}


def draw(run, kind, statistic, file):
    """The losses, and below them one statistic of all tensors over the steps."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = 0.22 * len(run.sites(kind)) + 0.8
    figure, (above, below) = plt.subplots(
        2, 1, figsize=(8, rows + 1.8), height_ratios=(1.8, rows), layout="constrained"
    )
    for name, (steps, values) in {**run.losses(), **_validation(run)}.items():
        above.plot(steps, values, label=name)
    above.legend(loc="upper right", fontsize=8)
    above.set_xlabel("step")
    run.plot.heatmap(kind, statistic, ax=below)
    figure.savefig(file, dpi=110)
    plt.close(figure)


def _validation(run):
    return {name: course for name, course in run.epoch_metrics().items() if name == "val_loss"}


def section(rule, finding):
    """The example of a rule's page."""
    shown = [
        part
        for line in finding.text().splitlines()
        for part in textwrap.wrap(line, 110, subsequent_indent="  ", drop_whitespace=True)
    ]
    lines = ["## Example", "", "```", *shown, "```", ""]
    return "\n".join([*lines, f"![{finding.title}](../images/rules/{rule}.png)", ""])


def main():
    folder = Path(sys.argv[1]) / "tuning"
    (ROOT / "docs/images/rules").mkdir(exist_ok=True)
    for rule, (program, kind, statistic) in EXAMPLES.items():
        with gradwatch.open(folder / program) as run:
            finding = next(each for each in diagnose(run).findings if each.rule == rule)
            draw(run, kind, statistic, ROOT / f"docs/images/rules/{rule}.png")
        page = ROOT / f"docs/rules/{rule}.md"
        written = page.read_text().partition("\n## Example\n")[0]
        page.write_text(written + "\n" + section(rule, finding))


if __name__ == "__main__":
    main()
