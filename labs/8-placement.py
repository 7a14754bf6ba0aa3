# %% [markdown]
# # Lab 8: Placement of collectives
#
# **Remember:** before you train an agent, count the possibilities: a search may find the optimum.
#
# - **Goals.** Compute the time of an all-reduce. See why its place on the machine changes it by two orders of
#   magnitude. Count the placements, and find the best one.
# - **You need** Python. You should know what data and tensor parallelism are.
# - **Time.** 75 minutes. All programs run in seconds.
# - **You hand in** this file or notebook; `sysgym lab grade 8 .` checks it. Graders read only functions,
#   imports and names in CAPITALS. In grading, functions may use Python and NumPy, not sysgym.
#
# ```
#   node 0                           node 1
#   [16 GPUs == 235 GB/s ==] --NIC-- 8.4 GB/s --NIC-- [== 235 GB/s == 16 GPUs]
# ```
#
# The problem is that of P2 (Xie et al., MLSys 2022). **What this lab does not show:** the NIC's 8.4 GB/s were
# chosen so that the range of times is that of the paper, so the famous factor below is no evidence for the
# model. Times are those of a closed form, not of hardware.

# %%
import math

from sysgym.emulator.accelerators.cost.model import CostModel
from sysgym.emulator.accelerators.matrices import default_matrix, enumerate_matrices
from sysgym.emulator.accelerators.presets import get_preset
from sysgym.emulator.accelerators.problem import Reduction

# %% [markdown]
# ## 1. One ring (15 points)
#
# In a ring all-reduce of n devices every device sends 2 (n - 1) / n times the vector to its neighbour.


# %%
def ring_time_s(devices, size_bytes, bandwidth_bytes_per_s):
    """Return the time of a ring all-reduce on links of one bandwidth, without latency."""
    ### BEGIN SOLUTION
    ### TODO: bytes over each link, divided by its bandwidth
    ### >>> return 0.0
    return 2 * (devices - 1) / devices * size_bytes / bandwidth_bytes_per_s
    ### END SOLUTION


# %% [markdown]
# ## 2. Many rings through one NIC (20 points)
#
# Two nodes of 16 GPUs, data parallelism 2 and tensor parallelism 16. Only the data axis is reduced: 16
# groups of two devices, all at once. **Predict:** how much slower is it if each group has one device in each
# node than if it is inside a node? All 16 rings then share one NIC.


# %%
def slower_across(gpu_bytes_per_s, nic_bytes_per_s, groups):
    """Return the time with all groups across two nodes over that with all groups inside a node."""
    ### BEGIN SOLUTION
    ### TODO: the ratio of bandwidths is only a part of it
    ### >>> return gpu_bytes_per_s / nic_bytes_per_s
    return groups * gpu_bytes_per_s / nic_bytes_per_s
    ### END SOLUTION


# %%
system = get_preset("p2-a100", nodes=2)
model = CostModel(system)
gradients = Reduction(axes=(0,), size_bytes=1e9)
for matrix in enumerate_matrices(system.cardinalities, (2, 16)):
    print(matrix, f"{1e3 * model.all_reduce_time_s(matrix, gradients):9.2f} ms")
print("you said a factor of", slower_across(235e9, 8.4e9, 16))

# %% [markdown]
# A placement is a matrix with a row for each axis and a column for each level. `((1, 2), (2, 8))` has the
# data axis inside the nodes (1 across, 2 inside) and the tensor axis across and inside. The product over a
# column is the level's size, the product over a row the axis's. What was the default placement's factor?

# %%
print("default:", default_matrix(system.cardinalities, (2, 16)))

# %% [markdown]
# ## 3. Count before you learn (25 points)
#
# How many matrices are there? Write a function that lists them, for any number of levels and axes. Two hints:
# choose the first row, a divisor of what is left of each level; the rest is the same problem with one axis
# fewer.


# %%
def placements(cardinalities, axes):
    """Return all matrices, each a list of rows."""
    ### BEGIN SOLUTION
    ### TODO: rows have the product of their axis, columns that of their level
    ### >>> return [[list(cardinalities)]]
    if len(axes) == 1:
        return [[list(cardinalities)]] if math.prod(cardinalities) == axes[0] else []
    found = []
    for row in rows(cardinalities, axes[0]):
        left = [size // factor for size, factor in zip(cardinalities, row)]
        found += [[row, *rest] for rest in placements(left, axes[1:])]
    return found
    ### END SOLUTION


### BEGIN SOLUTION
### TODO: functions of your own can stand anywhere at the top level
def rows(cardinalities, size):
    """Return all rows of an axis: factors of the levels with the axis's product."""
    if not cardinalities:
        return [[]] if size == 1 else []
    found = []
    for factor in range(1, min(cardinalities[0], size) + 1):
        if cardinalities[0] % factor == 0 and size % factor == 0:
            found += [[factor, *rest] for rest in rows(cardinalities[1:], size // factor)]
    return found


### END SOLUTION

# %%
for cardinalities, axes in (
    ((2, 16), (2, 16)),
    ((4, 8), (4, 8)),
    ((4, 4, 8), (2, 8, 8)),
    ((8, 8, 8), (8, 8, 8)),
):
    mine, theirs = len(placements(cardinalities, axes)), len(enumerate_matrices(cardinalities, axes))
    print(cardinalities, axes, f"{mine} placements by your function, {theirs} by the package's")

# %% [markdown]
# ## 4. Find the best one (40 points)
#
# Estimate the time of every placement, and take the least. For a reduction over some axes:
#
# - a group has `k[j]` instances at level j, the product of the axes' entries in column j; n is the product
#   of all k;
# - the ring of a group crosses the uplinks of level j if `k[j] > 1`;
# - an instance of level j has as many devices as the product of the cardinalities of the levels inside it,
#   and of these the product of the inner k's are in the same group. So `devices / members` rings share its
#   uplink;
# - each ring sends `2 (n - 1) / n` vectors over it, and the slowest level decides.


# %%
def estimate_s(matrix, reduced_axes, size_bytes, bandwidths):
    """Return the time of a ring all-reduce over some axes, without latency.

    Args:
        matrix: The placement.
        reduced_axes: Numbers of the axes that are reduced together.
        size_bytes: Bytes of the vector on each device.
        bandwidths: Bytes per second of an uplink at each level, outermost first.
    """
    ### BEGIN SOLUTION
    ### TODO: the four points above
    ### >>> return 0.0
    levels = range(len(bandwidths))
    cardinalities = [math.prod(row[level] for row in matrix) for level in levels]
    k = [math.prod(matrix[axis][level] for axis in reduced_axes) for level in levels]
    n = math.prod(k)
    slowest = 0.0
    for level in levels:
        if k[level] > 1:
            rings = math.prod(cardinalities[level + 1 :]) // math.prod(k[level + 1 :])
            slowest = max(slowest, rings * ring_time_s(n, size_bytes, bandwidths[level]))
    return slowest
    ### END SOLUTION


def place(cardinalities, bandwidths, axes, reductions):
    """Return the matrix with the least time.

    Args:
        cardinalities: Size of each level, outermost first.
        bandwidths: Bytes per second of an uplink at each level.
        axes: Size of each axis.
        reductions: For each reduction, which run one after another: [reduced axes, size in bytes].
    """
    ### BEGIN SOLUTION
    ### TODO: try them all
    ### >>> return placements(cardinalities, axes)[0]
    return min(
        placements(cardinalities, axes),
        key=lambda matrix: sum(estimate_s(matrix, over, size, bandwidths) for over, size in reductions),
    )
    ### END SOLUTION


# %% [markdown]
# **Required plot:** the times of all placements of (2, 8, 8) on 4 x 4 x 8 devices, sorted, with the default
# placement and yours marked.

# %%
import matplotlib.pyplot as plt
from sysgym.emulator.accelerators.hierarchy import Hierarchy, Level

racks = Hierarchy(
    "racks", (Level("rack", 4, 10e9, 14e-6), Level("node", 4, 40e9, 14e-6), Level("gpu", 8, 300e9, 3e-6))
)
model, axes = CostModel(racks), (2, 8, 8)
reductions = [Reduction((0,), 4e9), Reduction((2,), 2e8)]


def time_s(matrix):
    """Return the time of a placement by the package's model."""
    return sum(model.all_reduce_time_s(tuple(map(tuple, matrix)), one) for one in reductions)


times = sorted(time_s(matrix) for matrix in enumerate_matrices(racks.cardinalities, axes))
chosen = place(
    list(racks.cardinalities),
    [level.bandwidth_bytes_per_s for level in racks.levels],
    list(axes),
    [[list(one.axes), one.size_bytes] for one in reductions],
)
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
axis.semilogy(times, ".", color="gray")
axis.axhline(time_s(default_matrix(racks.cardinalities, axes)), color="C1", label="default")
if tuple(map(tuple, chosen)) in enumerate_matrices(racks.cardinalities, axes):
    axis.axhline(time_s(chosen), color="C0", label="yours")
else:
    print("place returned no placement:", chosen)
axis.set(xlabel=f"{len(times)} placements, sorted", ylabel="time (s)")
axis.legend()
plt.show()

# %% [markdown]
# ## Questions
#
# 1. Where does the factor of part 2 come from? Which part is the machine's, which is the placement's?
# 2. This project trained agents with PPO for placement. On unseen systems their placements take 5 to 7 %
#    longer than the best ones. The problems there have a median of three placements. How much longer than
#    the best does one take who tries all, what does that cost, and when would learning pay?
# 3. The model adds up the load of an uplink. What does it leave out, and whom would you ask before you
#    believe it?
# 4. Reductions here run one after another. What changes if they overlap?
# 5. Which of your predictions was wrong, and what did you miss?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
