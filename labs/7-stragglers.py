# %% [markdown]
# # Lab 7: Stragglers without the future
#
# **Remember:** for every number, ask when it became known.
#
# - **Goals.** Find two leaks of the future in an evaluation and fix them. Then beat a rule that looks at
#   nothing but the clock, on jobs that you have not seen.
# - **You need** Python and NumPy.
# - **Time.** 90 minutes. All programs run in half a minute on two cores, once the simulator is compiled (a
#   minute, the first time).
# - **You hand in** this file or notebook; `sysgym lab grade 7 .` checks it. Graders read only functions,
#   imports and names in CAPITALS. In grading, functions may use Python and NumPy, not sysgym.
#
# A job of parallel tasks is complete when its slowest task is. A straggler is a task whose latency reaches
# the job's 90th percentile, the *threshold*. Flag it early and it can be run again elsewhere.
#
# ```
#   task 1  |#########|                         the clock knows:   elapsed time
#   task 2  |############|                      counters tell:     CPU, disk, cycles, so far
#   task 3  |###########################|  <--  straggler          and never: how long it will take
#           0         now              end
# ```

# %%
import matplotlib.pyplot as plt
import numpy as np

from sysgym.labs.jobs import clock, known_now, play_job

# %% [markdown]
# ## 1. The first leak: a mean over a whole life (25 points)
#
# A trace lists the CPU use of every task in every window. An evaluation computes "the task's mean CPU" and
# lets a policy see it while the task runs. The function below does that. A task that will last long has a
# lower mean, so the policy looks brilliant. Such a column was in the data of a published method, and this
# project itself once published a result that came from it.


# %%
def cpu_so_far(cpu, start_window, now_window):
    """Return the mean CPU of each task as a scheduler can know it; 0 for a task without a complete window.

    Args:
        cpu: Array of shape (tasks, windows): CPU use in each window of the whole trace; windows before the
            start and after the end of a task are 0.
        start_window: Window in which each task started, an array.
        now_window: Number of windows that are complete. Windows from this number on are the future.
    """
    ### BEGIN SOLUTION
    ### TODO: this is the leak; use complete windows only, from each task's start
    ### >>> return np.nanmean(np.where(cpu > 0, cpu, np.nan), axis=1)
    means = []
    for row, start in zip(cpu, start_window):
        seen = row[start:now_window]
        seen = seen[seen > 0]  # a task that has ended uses nothing
        means.append(float(np.mean(seen)) if len(seen) else 0.0)
    return means
    ### END SOLUTION


# %% [markdown]
# The test for such leaks is simple: **change everything that happens after now. Nothing that you show may
# change.**

# %%
rng = np.random.default_rng(1)
trace = rng.uniform(0.2, 1.0, (4, 12))
other_future = trace.copy()
other_future[:, 5:] = rng.uniform(0.2, 1.0, (4, 7))
starts = np.array([0, 0, 1, 2])
print("now:            ", np.round(cpu_so_far(trace, starts, 5), 3))
print("another future: ", np.round(cpu_so_far(other_future, starts, 5), 3))

# %% [markdown]
# ## 2. The second leak: flags that come too late (30 points)
#
# Whoever flags a task after it has run for the threshold has only read the clock. Count a flag as true if
# the task is a straggler (its latency is at least the threshold) and it had run for less than the threshold
# when it was flagged. A flag of a task that is no straggler is false. A straggler with no flag, or a late
# one, is missed. Return F1: 2 true / (2 true + false + missed), and 0 if nothing is true.


# %%
def f1_in_time(flagged_after, latency, threshold):
    """Return F1 of the flags that came in time.

    Args:
        flagged_after: For each task, how long it had run when it was flagged; nan if it never was. An array.
        latency: Latency of each task, an array.
        threshold: Latency from which on a task is a straggler.
    """
    ### BEGIN SOLUTION
    ### TODO: this counts late flags as true; fix it
    ### >>> flagged, straggler = ~np.isnan(flagged_after), latency >= threshold
    ### >>> true, false, missed = flagged & straggler, flagged & ~straggler, straggler & ~flagged
    ### >>> return 2 * true.sum() / max(2 * true.sum() + false.sum() + missed.sum(), 1)
    flagged, straggler = ~np.isnan(flagged_after), latency >= threshold
    true = straggler & (flagged_after < threshold)
    false, missed = flagged & ~straggler, straggler & ~true
    return 2 * true.sum() / max(2 * true.sum() + false.sum() + missed.sum(), 1)
    ### END SOLUTION


# %% [markdown]
# ## 3. Beat the clock (45 points)
#
# Your rule sees at each checkpoint what a scheduler knows (`help(known_now)`): who runs,
# for how long, the threshold, and four counters so far. **Predict:** does a task that will be slow use more
# CPU than its siblings, or less? Plot before you decide.
#
# The score is F1 over time: the mean of F1 over flags raised up to 10 %, 20 %, ... 100 % of the threshold.
# Even a rule that knows the future gets only about a third, as nothing can be flagged before the first tasks
# have finished. Your points grow with your gain over the clock; the check prints from which gain on you get
# all of them.
#
# The plot has two colours by the final latency, which is the future: your rule must not use it.

# %%
help(known_now)
seen = []


def look(known):
    """Keep what is known at every decision, and flag nobody."""
    seen.append(known)
    return np.zeros(len(known["running"]), bool)


play_job(look, seed=20_002)
fourth, last = seen[3], seen[-1]
cpu = np.log(fourth["cpu_rate"] / np.median(fourth["cpu_rate"]) + 1e-6)
finished_soon = np.nan_to_num(last["latency"], nan=np.inf) < fourth["threshold"]
bins = np.linspace(-2, 0.6, 40)
figure, axis = plt.subplots(figsize=(6, 3.5), layout="constrained")
axis.hist(cpu[finished_soon], bins, alpha=0.7, density=True, label="others")
axis.hist(cpu[~finished_soon], bins, alpha=0.7, density=True, label="will be stragglers")
axis.set(xlabel="ln(CPU / median of the siblings), fourth decision", ylabel="density of tasks")
axis.legend()
plt.show()


# %%
def flag(known):
    """Return for each task whether to flag it now.

    Args:
        known: A dict: running, finished, elapsed, latency, threshold, checkpoint, cpu_rate, disk_io_time,
            cycles_per_instruction, evictions.
    """
    ### BEGIN SOLUTION
    ### TODO: compare a task's counters with those of its siblings; begin early, and flag few
    ### >>> return known["running"] & (known["elapsed"] >= 0.8 * known["threshold"])
    cpu = known["cpu_rate"]
    slow = np.log((np.median(cpu) + 1e-6) / (cpu + 1e-6))  # less CPU than the siblings: starved
    few = np.argsort(-slow)[: int(0.1 * len(cpu))]
    chosen = np.zeros(len(cpu), bool)
    chosen[few] = True
    early = chosen & (slow > 0.1) & (known["checkpoint"] >= 1)
    late = known["elapsed"] >= 0.95 * known["threshold"]
    return known["running"] & (early | late)
    ### END SOLUTION


# %% [markdown]
# **Required plot:** F1 over time of your rule on 12 jobs, over that of the best clock and over that of
# flagging everybody at once. Jobs differ more than rules do: compare on the same jobs.

# %%
SEEDS = range(20_100, 20_112)
clocks = {
    share: [play_job(clock(share), seed)["f1_over_time"] for seed in SEEDS] for share in (0.4, 0.8, 0.95)
}
everybody = [play_job(lambda known: known["running"], seed)["f1_over_time"] for seed in SEEDS]
mine = np.array([play_job(flag, seed)["f1_over_time"] for seed in SEEDS])
best = max(clocks, key=lambda share: np.mean(clocks[share]))
gain = mine - np.array(clocks[best])
error = gain.std(ddof=1) / np.sqrt(len(gain))
T = 2.20  # 97.5 % quantile of Student's distribution for 12 values
for share, scores in clocks.items():
    print(f"clock at {share:g}: {np.mean(scores):.3f}")
print(f"everybody: {np.mean(everybody):.3f}")
print(f"yours: {mine.mean():.3f}")
print(f"gain over the best clock: {gain.mean():.3f} +- {T * error:.3f} (95 %)")
figure, axis = plt.subplots(figsize=(4.5, 4.5), layout="constrained")
axis.plot(clocks[best], mine, "o", label=f"clock at {best:g}")
axis.plot(everybody, mine, "x", label="everybody")
most = 1.05 * max(mine.max(), max(everybody), max(clocks[best]))
axis.plot((0, most), (0, most), color="gray")
axis.set(xlabel="F1 over time of the baseline", ylabel="F1 over time of your rule", aspect="equal")
axis.set(xlim=(0, most), ylim=(0, most))
axis.legend()
plt.show()

# %% [markdown]
# ## Questions
#
# 1. The threshold is itself a number of the future. Who gets it here, and is the comparison fair?
# 2. Flag everybody at the first checkpoint. What are recall, F1 and F1 over time? What does that say of
#    recall, and of the clock as a baseline?
# 3. In an hour of a real trace, Alibaba's of 2018, the clock has an F1 over time of 0.09, and no rule and no
#    learner has more. That trace shows counters of a task only when the task is over. Why can a rule beat the
#    clock on these generated jobs? What do you conclude from that?
# 4. Twelve jobs: is your gain significant? How many would you play before you publish?
# 5. Which of your predictions was wrong, and what did you miss?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
