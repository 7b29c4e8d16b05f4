"""What else people call the kinds."""

KIND_SYNONYMS = {
    **dict.fromkeys(("grad", "grads"), "gradient"),
    **dict.fromkeys(("clipped_gradient", "applied"), "applied_gradient"),
    **dict.fromkeys(("param", "parameter", "variable", "kernel", "bias"), "weight"),
    **dict.fromkeys(("activation", "act", "layer_output"), "output"),
    **dict.fromkeys(("activation_gradient", "output_grad"), "output_gradient"),
    **dict.fromkeys(("delta", "change", "step"), "update"),
    **dict.fromkeys(("label", "y"), "target"),
    **dict.fromkeys(("x", "data", "batch"), "input"),
    **dict.fromkeys(("learning_rate", "lr", "number"), "scalar"),
    **dict.fromkeys(("dead", "dead_neuron"), "dead_unit"),
    **dict.fromkeys(("sample", "worst_sample"), "sample_loss"),
    **dict.fromkeys(("momentum", "mu", "exp_avg"), "first_moment"),
    **dict.fromkeys(("velocity", "nu", "exp_avg_sq"), "second_moment"),
    **dict.fromkeys(("residual", "residuals", "branch"), "residual_ratio"),
}
"""Other names for kinds, for suggestions."""
