"""The recipes for records of which only part is known."""

from __future__ import annotations

from functools import cache

from divulge.recipes.recipe import Imputed, Recipe


@cache
def partial_recipes() -> tuple[Recipe, ...]:
    """The recipes for records of which only part is known (``dv.audit(known=…)``)."""
    from divulge.attacks import Learned, LiRA, LogRatio, Threshold
    from divulge.signals import MRAD, GradientMatching

    return (
        Recipe("partial-loss", "negative-loss", Threshold(), summary="LOSS on the completed record", imputed=Imputed()),
        Recipe(
            "partial-lira",
            "scaled-logit",
            LiRA(mode="offline", variance="global"),
            "out",
            "offline LiRA, its signal averaged over completions",
            Imputed(8, "signal"),
        ),
        Recipe(
            "partial-rmia",
            "negative-loss",
            LogRatio(),
            "out",
            "RMIA's log ratio, averaged over completions",
            Imputed(8, "score"),
        ),
        Recipe(
            "partial-marginal",
            "negative-loss",
            LogRatio(),
            "out",
            "ratio of likelihoods marginalised over completions",
            Imputed(8, "likelihood"),
        ),
        Recipe(
            "partial-learned",
            "scaled-logit",
            Learned(),
            "out",
            "log-odds learned on the reference models' own records",
            Imputed(),
        ),
        Recipe(
            "partial-lira-online",
            "scaled-logit",
            LiRA(mode="online", variance="global"),
            "in and out",
            "online LiRA, IN models trained on completed records",
            Imputed(),
        ),
        Recipe(
            "partial-rmia-online",
            "negative-loss",
            LogRatio(over="all"),
            "in and out",
            "RMIA's log ratio, IN models trained on completed records",
            Imputed(),
        ),
        Recipe(
            "partial-learned-online",
            "scaled-logit",
            Learned("online"),
            "in and out",
            "log-odds learned on IN models trained on completed records",
            Imputed(),
        ),
        Recipe(
            "mrad",
            MRAD(),
            Threshold(),
            summary="descend the loss on the unknown values, then detect deviations (MRAD; for comparison)",
        ),
        Recipe("mrad-shadow", MRAD(shadows=2), Threshold(), summary="MRAD's deviation beside two shadow models'"),
        Recipe(
            "gradient-norm",
            MRAD(detector="gradient-norm"),
            Threshold(),
            summary="norm of the loss's gradient on the unknown values (for comparison)",
        ),
        Recipe("gradient-matching", GradientMatching(), Threshold(), summary="match a member's gradient (as DLG does)"),
    )
