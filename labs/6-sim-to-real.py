# %% [markdown]
# # Lab 6: From the simulator to the kernel
#
# **Remember:** a difference counts if it is larger than its uncertainty and large enough to matter.
#
# - **Goals.** Compare the same laws on the simulator and on a real Linux kernel. Tell a difference from
#   noise. Find out which conclusions survive.
# - **You need** Python and NumPy. Runs on the kernel need Linux and root; without them, recorded runs stand
#   in.
# - **Time.** One hour. All programs run in seconds.
# - **You hand in** this file or notebook; `sysgym lab grade 6 .` checks it. Graders read only functions,
#   imports and names in CAPITALS. In grading, functions may use Python and NumPy, not sysgym.
#
# ```
#   sender 1 --\                                  /-- receiver 1        once in the simulator,
#               switch ==[ 187.5 kB ]== 100 Mb/s ==                     once as network namespaces of
#   sender 2 --/                                  \-- receiver 2        a Linux kernel, with its own TCP
# ```

# %%
import matplotlib.pyplot as plt
import numpy as np

from sysgym.labs.recorded import about, laws, values

print(about())

# %% [markdown]
# ## On your own kernel (optional)
#
# On Debian or Ubuntu, as root, in the environment that has sysgym:
#
# ```
# apt-get install mininet clang libbpf-dev
# pip install "sysgym-0.1.0-py3-none-any.whl[emulator]"
# sysgym run linux-dumbbell-100m --contender cubic --backend linux
# ```
#
# With `--seed 20000` to `20007` and the contenders `reno`, `cubic`, `dctcp` and `bbr` these are the recorded
# runs.

# %% [markdown]
# ## 1. What must agree (15 points)
#
# Goodput counts payload only. A full packet has 1,500 bytes, of which 40 are headers of IP and TCP; the rate
# of the link counts all 1,500. **Predict** the goodput of a full link of 100 Mb/s, then compare with the
# table. Timestamps, 12 bytes more, are off here, in the kernel too: what would they cost?
#
# Two things in the table need a second look. The kernel's link misses the limit by 0.1 to 0.5 Mb/s, as it is
# idle for moments. And Reno on the simulator is above the limit: goodput counts what arrives in order. What
# waits behind a lost packet when the measured interval begins is counted in it when the gap is filled.


# %%
def goodput_bps(rate_bps, packet_bytes, header_bytes):
    """Return the goodput of a full link."""
    ### BEGIN SOLUTION
    ### TODO: the share of payload in a packet
    ### >>> return rate_bps
    return rate_bps * (packet_bytes - header_bytes) / packet_bytes
    ### END SOLUTION


# %%
print(
    f"limit: {goodput_bps(100e6, 1500, 40) / 1e6:.2f} Mb/s,"
    f" with timestamps {goodput_bps(100e6, 1500, 52) / 1e6:.2f} Mb/s"
)
for law in laws():
    print(
        law,
        [
            round(float(np.mean(values(law, backend, "goodput_bps"))) / 1e6, 2)
            for backend in ("packets", "linux")
        ],
    )

# %% [markdown]
# ## 2. A difference, or noise? (30 points)
#
# Return the relative difference of the means, simulator against kernel, and the standard error of the
# difference, divided by the kernel's mean. The standard error is the square root of the sum of both variances
# over their counts (with `ddof=1`).


# %%
def difference(simulator, kernel):
    """Return [relative difference of means, standard error of the difference over the kernel's mean].

    Args:
        simulator: A value for each run on the simulator, an array.
        kernel: A value for each run on the kernel, an array.
    """
    ### BEGIN SOLUTION
    ### TODO: positive if the simulator has more
    ### >>> return [0.0, 1.0]
    mean = np.mean(kernel)
    variance = np.var(simulator, ddof=1) / len(simulator) + np.var(kernel, ddof=1) / len(kernel)
    return [(np.mean(simulator) - mean) / mean, np.sqrt(variance) / mean]
    ### END SOLUTION


# %% [markdown]
# **Required plot:** mean queue of each law on both, every run a point.

# %%
T = 2.36  # 97.5 % quantile of Student's distribution for eight values; 1.96 is for many
figure, axis = plt.subplots(figsize=(7, 3.5), layout="constrained")
for place, law in enumerate(laws()):
    simulator, kernel = (values(law, backend, "queue_mean_bytes") / 1e3 for backend in ("packets", "linux"))
    axis.plot(
        np.full(len(simulator), place - 0.1),
        simulator,
        "o",
        color="C0",
        label="simulator" if not place else None,
    )
    axis.plot(
        np.full(len(kernel), place + 0.1), kernel, "s", color="C1", label="kernel" if not place else None
    )
    relative, error = difference(simulator, kernel)
    print(f"{law:6} {100 * relative:+6.1f} % +- {100 * T * error:.1f} (95 %)")
axis.set_xticks(range(len(laws())), laws())
axis.set(ylabel="mean queue (kB)")
axis.legend()
plt.show()

# %% [markdown]
# ## 3. Which laws differ? (25 points)
#
# List the laws whose mean queue differs by more than 5 % **and** by more than 2 standard errors, in the
# recorded table. Type the names: a grader reads the list, and cannot compute it.

# %%
### BEGIN SOLUTION
### TODO: type a list of names, such as ["reno"]
### >>> DIFFERENT_QUEUES = []
DIFFERENT_QUEUES = ["bbr"]
### END SOLUTION

# %% [markdown]
# ## 4. Which conclusions survive? (30 points)
#
# A simulator is useful if it ranks laws as the kernel does, even where its figures differ. Return the pairs
# of laws whose order differs: those where one is lower on the simulator and higher on the kernel. One of the
# four metrics below has such pairs.


# %%
def reversed_pairs(simulator, kernel):
    """Return a list of pairs [a, b], a before b in the alphabet, whose order differs.

    Args:
        simulator: Dict from law to mean on the simulator.
        kernel: Dict from law to mean on the kernel.
    """
    ### BEGIN SOLUTION
    ### TODO: compare all pairs
    ### >>> return []
    names = sorted(simulator)
    return [
        [a, b]
        for a in names
        for b in names
        if a < b and (simulator[a] - simulator[b]) * (kernel[a] - kernel[b]) < 0
    ]
    ### END SOLUTION


# %%
for metric in ("queue_mean_bytes", "rtt_mean_s", "jain_index", "drop_fraction"):
    means = [
        {law: np.mean(values(law, backend, metric)) for law in laws()} for backend in ("packets", "linux")
    ]
    print(f"{metric}: reversed {reversed_pairs(*means)}")

# %% [markdown]
# ## Questions
#
# 1. Episodes last two seconds and differ in the start of the flows only. What else varies on the kernel?
# 2. Name two mechanisms that the kernel has and a simulator may leave out. Which would you look at first for
#    the law that differs most? That law sends at the rate at which ACKs report deliveries.
# 3. An order that is reversed within the noise is no contradiction. Look at the drops of single runs,
#    `values("bbr", "linux", "drop_fraction")`: are their reversed pairs one? How would you change
#    `reversed_pairs`?
# 4. You train a policy on the simulator. What do you have to measure before you run it on the kernel?
# 5. Which of your predictions was wrong, and what did you miss?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
