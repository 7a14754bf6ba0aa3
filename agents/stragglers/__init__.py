"""Predictors and mitigators of stragglers: rules, and learners that are fitted at every checkpoint.

All agents except the oracle read only :class:`sysgym.envs.stragglers.view.JobView`. The same agent plays both
environments: tasks that it flags in ``StragglerPrediction-v0`` are relaunched or copied in
``StragglerMitigation-v0``. The learners require the extra ``stragglers`` (scikit-learn, PyOD).
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "stragglers"


def _heuristic(
    name: str, entry: str, summary: str, *, privileged: bool = False, fits_train_split: bool = False
) -> AgentInfo:
    return AgentInfo(
        name,
        summary,
        f"sysgym.agents.stragglers.{entry}",
        privileged=privileged,
        fits_train_split=fits_train_split,
        family=_FAMILY,
    )


AGENTS = (
    _heuristic("none", "rules:NoneAgent", "never flags a task, never acts"),
    _heuristic("flag_all", "rules:FlagAllAgent", "flags every task at the first chance"),
    _heuristic("random_rate", "rules:RandomRateAgent", "flags a random tenth of the tasks"),
    _heuristic(
        "stragglers/oracle",
        "oracle:OracleAgent",
        "flags exactly the tasks that will be stragglers, read from the job",
        privileged=True,
    ),
    _heuristic("clock", "rules:ClockAgent", "flags tasks that have run for 95 % of the threshold"),
    _heuristic(
        "spark",
        "rules:SparkAgent",
        "flags tasks beyond 1.5 times the median, once three quarters have finished",
    ),
    _heuristic(
        "late", "rules:LateAgent", "flags the tenth with the longest expected remaining time (Hadoop's LATE)"
    ),
    _heuristic(
        "mantri", "rules:MantriAgent", "restarts tasks whose remaining time probably exceeds twice a new run"
    ),
    _heuristic(
        "speed", "speed:SpeedAgent", "flags tasks that are slow, large and old relative to their siblings"
    ),
    _heuristic("dolly", "rules:DollyAgent", "clones every task of a small job at the start"),
    _heuristic("gbtr", "nurd:GbtrAgent", "gradient-boosted regression on finished tasks"),
    _heuristic("nurd", "nurd:NurdAgent", "regression reweighted by calibrated propensity to finish (NURD)"),
    _heuristic("nurd_nc", "nurd:NurdNcAgent", "NURD without calibration"),
    _heuristic("pu_en", "pu:PuElkanNotoAgent", "positive-unlabeled learning of Elkan and Noto"),
    _heuristic("pu_bagging", "pu:PuBaggingAgent", "positive-unlabeled bagging of Mordelet and Vert"),
    _heuristic(
        "wrangler",
        "wrangler:WranglerAgent",
        "a linear SVM with a confidence, fitted on other jobs",
        fits_train_split=True,
    ),
    _heuristic("tobit", "censored:TobitAgent", "linear regression with running tasks as censored"),
    _heuristic("iforest", "outliers:IsolationForestAgent", "isolation forest on finished tasks"),
    *(
        _heuristic(
            detector.lower(), f"outliers:{detector.title()}Agent", f"PyOD's {detector} on finished tasks"
        )
        for detector in ("ABOD", "CBLOF", "HBOS", "KNN", "LOF", "MCD", "OCSVM", "PCA")
    ),
    AgentInfo(
        "transfer",
        "gradient boosting across jobs, on features of a task relative to its siblings (LightGBM)",
        "sysgym.agents.learned.stragglers.transfer:Transfer",
        learned=True,
        family=_FAMILY,
        trainer="sysgym.agents.learned.stragglers.transfer:train_transfer",
    ),
)
"""Agents of the family, besides the general learning algorithms."""
