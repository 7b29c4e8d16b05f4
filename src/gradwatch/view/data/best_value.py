"""Which of its values is the best of a metric, judged by its name."""

import re

_LOWER = re.compile(
    r"loss|error|perplexity|entropy|divergence|mse|mae|rmse|mape|msle|hinge|nll|wer"
)
_HIGHER = re.compile(r"acc|auc|precision|recall|f1|f_?score|iou|dice|r2|bleu|rouge|ndcg|score|psnr")


def is_lower_better(name: str) -> bool | None:
    """Whether a smaller value is better; None where the name does not say it.

    >>> from gradwatch.view.data.best_value import is_lower_better
    >>> [is_lower_better(name) for name in ("val_loss", "top_k_accuracy", "learning_rate")]
    [True, False, None]
    """
    last = name.rpartition("/")[2].lower()
    if _LOWER.search(last):
        return True
    return False if _HIGHER.search(last) else None
