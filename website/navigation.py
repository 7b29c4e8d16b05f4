"""The site's table of contents, and the public names of the reference.

A page is a path below `docs/`, or below the root of the repository if it begins with `../`.
"""

from typing import Any

RECIPES = [f"recipes/{name}" for name in (
    "README.md",
    "01-gradient-histograms-each-epoch.md",
    "02-gradients-of-chosen-layers.md",
    "03-gradients-every-n-batches.md",
    "04-weights-and-biases-in-a-tape-loop.md",
    "05-convolution-kernels-as-images.md",
    "06-recurrent-weights-by-gate.md",
    "07-gradient-of-a-layers-output.md",
    "08-gradients-of-kernel-and-bias.md",
    "09-some-layers-of-a-larger-model.md",
    "10-weight-norms-to-csv.md",
    "11-several-norms-every-n-steps.md",
    "12-norms-of-every-variable.md",
    "13-print-gradient-sums.md",
    "14-gradient-accumulation.md",
    "15-gradients-of-a-compiled-loop.md",
)]  # fmt: skip

# Pages of the API reference: file, title, the names on it.
API = [
    (
        "monitor",
        "Monitor and watch",
        [
            "Monitor",
            "watch",
            "tap",
            "router",
            "residual",
            "with_taps",
            "inspect",
            "coordinate_check",
            "sites",
            "GradwatchWarning",
        ],
    ),
    (
        "watches",
        "What to measure",
        [
            "gradients",
            "applied_gradients",
            "weights",
            "updates",
            "outputs",
            "output_gradients",
            "attention",
            "residuals",
            "logits",
            "optimizer_state",
            "pictures",
            "spectral_norms",
            "losses",
            "scalars",
            "Watch",
            "select",
        ],
    ),
    ("schedule", "When to measure", ["schedule"]),
    (
        "sinks",
        "Where readings go",
        [
            "Store",
            "TensorBoard",
            "CSV",
            "Console",
            "PNG",
            "Totals",
            "Forward",
            "Sink",
            "store.Remote",
            "store.segment_files",
        ],
    ),
    (
        "reading",
        "Reading runs",
        [
            "open",
            "compare",
            "noise_scale",
            "report",
            "read.Run",
            "read.Runs",
            "read.Heatmap",
            "read.Comparison",
            "read.RankSeries",
            "read.RankStatus",
            "read.NotRecordedError",
            "read.QueryError",
            "maintain.verify",
            "maintain.repair",
            "maintain.upload",
        ],
    ),
    (
        "diagnosis",
        "Diagnosis",
        [
            "diagnose",
            "silence",
            "Finding",
            "diagnosis.Verdict",
            "diagnosis.rule",
            "diagnosis.Symptom",
            "diagnosis.Threshold",
            "diagnosis.History",
            "diagnosis.ModelFacts",
            "testing.assert_trains",
        ],
    ),
    ("core", "Sites and summaries", ["Site", "Kind", "Summary", "Histogram", "Reading"]),
]


def contents(rules: list[str], results: list[str]) -> list[dict[str, Any]]:
    """The navigation: sections, with their pages."""
    return [
        {
            "Start": [
                "index.md",
                {"Five minutes with Keras": "start-keras.md"},
                {"Five minutes with torch": "start-torch.md"},
                {"Glossary": "glossary.md"},
            ]
        },
        {
            "How-to": [
                {"When something is wrong": ["nan.md", "loss-spike.md", "does-not-learn.md"]},
                {"Recipes": RECIPES},
                {
                    "Recording": [
                        "keras-fit.md",
                        "loops.md",
                        "jax.md",
                        "trainers.md",
                        "selecting.md",
                        "schedules.md",
                        "outputs.md",
                        "attention.md",
                        "optimizer-state.md",
                        "precision.md",
                        "compiled.md",
                        "pictures.md",
                        "inspect.md",
                        "width.md",
                        "noise.md",
                    ]
                },
                {
                    "Looking": [
                        "view.md",
                        "notebooks.md",
                        "report.md",
                        "trackers.md",
                        "top.md",
                        "reading.md",
                        "agents.md",
                    ]
                },
                {"At work": ["ci.md", "clusters.md", "distributed.md", "tuning.md", "remote.md"]},
                "extending.md",
                "versions.md",
            ]
        },
        {
            "Coming from": [
                {"wandb.watch": "from-wandb.md"},
                {"Keras write_grads": "from-keras.md"},
                {"SageMaker Debugger": "from-sagemaker.md"},
            ]
        },
        {"Rules": ["diagnosis.md", *[{rule: f"rules/{rule}.md"} for rule in rules]]},
        {
            "Reference": [
                {"API": [{title: f"reference/{name}.md"} for name, title, _ in API]},
                {"Command line": ["cli.md", {"All options": "reference/commands.md"}]},
                {
                    "Files": [
                        "files.md",
                        {"Format of the store": "../src/gradwatch/store/README.md"},
                    ]
                },
                {"Statistics and kinds": "numbers.md"},
                {"Changes": "../CHANGELOG.md"},
            ]
        },
        {
            "Explanation": [
                "gradients.md",
                "architecture.md",
                {
                    "Cost": [
                        "cost.md",
                        "scale.md",
                        "../benchmarks/README.md",
                        {"Results": results},
                    ]
                },
                {
                    "How the diagnosis was measured": [
                        "measured.md",
                        "../benchmarks/faults/README.md",
                        "../benchmarks/strangers/README.md",
                    ]
                },
            ]
        },
    ]
