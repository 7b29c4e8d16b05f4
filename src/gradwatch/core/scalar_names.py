"""Names of scalars that the capture records for the diagnosis."""

ADDED_LOSS = "added_loss"
"""What regularizers and `add_loss` add to the loss."""
UNTRAINED = "untrained_parameters"
"""The number of parameters that get gradients but are not changed by any optimizer."""
