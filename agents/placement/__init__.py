"""Placers of parallelism and builders of reduction programs: rules, searches, and rules for measuring.

The same agent plays all environments of the family in which it makes sense; where it makes none, ``begin``
says which ones it plays. All read what the environments make public, the problem and the cost model with it;
only the oracle reads what ``JointPlacement-v0`` hides.
"""
