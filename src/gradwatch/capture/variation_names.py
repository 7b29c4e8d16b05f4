"""The names of how much the samples of a batch differ, relative to their size."""

INPUT_VARIATION, OUTPUT_VARIATION = "input_variation", "output_variation"
TARGET_VARIATION = "target_variation"

COPIED_CLASSES = "copied_classes"
"""The share of the targets that are equal to the input in their place."""
