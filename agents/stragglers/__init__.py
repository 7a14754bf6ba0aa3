"""Predictors and mitigators of stragglers: rules, and learners that are fitted anew at every checkpoint.

Everything here reads only :class:`sysgym.envs.stragglers.view.JobView`, except the oracle. The same agent
plays both environments: what it flags in ``StragglerPrediction-v0`` it relaunches or copies in
``StragglerMitigation-v0``. The learners need the extra ``stragglers`` (scikit-learn, PyOD).
"""
