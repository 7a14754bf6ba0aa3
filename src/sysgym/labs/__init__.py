"""Labs: exercises with starters, checks and grades; ``sysgym lab`` is their command.

Masters with solutions are in ``labs/`` of the repository, which no wheel has. This package has the starters
made from them, and the graders.
"""
