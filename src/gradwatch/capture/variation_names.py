"""The names of what inputs, outputs and targets of a batch show when they are compared."""

INPUT_VARIATION, OUTPUT_VARIATION = "input_variation", "output_variation"
TARGET_VARIATION = "target_variation"
"""How much the samples of a batch differ, relative to their size."""
COPIED_CLASSES = "copied_classes"
"""The share of the targets that are equal to the input in their place."""
COMPARED = INPUT_VARIATION, OUTPUT_VARIATION, TARGET_VARIATION, COPIED_CLASSES
