"""Labs: exercises with starters, checks and grades; ``sysgym lab`` is their command.

The masters, which contain the solutions, are in ``labs/`` of the repository and not part of wheels. This
package contains the starters made from the masters, and the graders.
"""
