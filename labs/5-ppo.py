# %% [markdown]
# # Lab 5: Train an agent with PPO
#
# **Remember:** judge a policy in environments that it was not trained in.
#
# - **Goals.** Write a reward whose best constant is a good one. Train PPO, see it do well at home and fail
#   abroad, and fix that. Compare with a rule of three lines and with a constant.
# - **You need** Python, and an idea of reinforcement learning. `pip install 'sysgym[train]'` brings PyTorch.
# - **Time.** 90 minutes. All programs run for one to two minutes on two cores, once the simulator is compiled
#   (a minute, the first time).
# - **You hand in** this file or notebook and your policy, as `policy.zip` in the same folder.
#   `sysgym lab grade 5 .` checks both. Graders read only functions, imports and names in CAPITALS, and play
#   the policy on core links that you have not seen. In grading, functions may use Python and NumPy, not
#   sysgym.
#
# ```
#   sender 1 --10 Mb/s--\                                 /-- receiver 1
#                        switch ==[ 400 kB ]== core link ==
#   sender 2 --10 Mb/s--/      10 Mb/s at home; abroad? \-- receiver 2
# ```
#
# An agent sets both senders' rates ten times a second. It sees queueing delays, marks, and what it sent.

# %%
import os
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from sysgym.agents.learned.training.train import train
from sysgym.labs.rates import home, play_policy, play_rule, varied
from sysgym.labs.trainings import returns

QUICK = bool(os.environ.get("SYSGYM_LAB_QUICK"))  # shorter training, for tests of this file
STEPS = 2_000 if QUICK else 30_000

# %% [markdown]
# ## 1. A reward (25 points)
#
# An agent does what is rewarded, not what is meant. The simplest agent is a constant rate. The grader plays
# constant rates and takes the one that your reward likes best: it must use at least 80 % of the link, with a
# mean queueing delay of at most 20 ms. **Predict:** which constant does a reward of goodput alone choose?
#
# Your reward is judged here only. Part 3 trains with the environment's own, which is of the same form:
# goodput against the fair share, minus queueing delay and loss.


# %%
def reward(goodput_share, delay_s, dropped):
    """Return the reward of an interval.

    Args:
        goodput_share: Goodput over the most that the core link can carry, 0 to 1.
        delay_s: Queueing delay at the core link; a full buffer has 0.32 s at home.
        dropped: Share of the packets that were dropped.
    """
    ### BEGIN SOLUTION
    ### TODO: goodput alone is not enough
    ### >>> return goodput_share
    return goodput_share - 10 * delay_s - 2 * dropped
    ### END SOLUTION


# %%
CONSTANTS = np.linspace(0.1, 1.0, 10)
at_home = [play_rule(lambda known, rate=rate: [rate, rate]) for rate in CONSTANTS]
rewards = [reward(one.goodput_share, one.delay_s, one.dropped) for one in at_home]
best = at_home[int(np.argmax(rewards))]
print(f"best constant: {CONSTANTS[int(np.argmax(rewards))]:.1f} of a host's link each, {best}")

# %% [markdown]
# **Required plot:** goodput, delay and your reward over the constant rate.

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(CONSTANTS, [one.goodput_share for one in at_home], "o-", label="goodput (share)")
left.plot(CONSTANTS, [one.delay_s for one in at_home], "o-", label="delay (s)")
right.plot(CONSTANTS, rewards, "o-", color="C2", label="your reward")
for axis in (left, right):
    axis.set_xlabel("rate of each sender (share of its link)")
    axis.legend()
plt.show()

# %% [markdown]
# ## 2. A rule (30 points)
#
# Before you train anything, write a rule. `known` has `delay` (queueing delay d as d / (d + 4 ms)), `marks`
# (share of marked packets at the core link) and `rates` (of both senders, shares of 10 Mb/s). Return the
# next two rates. It will be played on core links between 3 and 10 Mb/s; nobody tells it the rate.


# %%
def act(known):
    """Return the next rates of both senders."""
    ### BEGIN SOLUTION
    ### TODO: grow slowly, shrink when packets are marked; a constant is right for one link only
    ### >>> return [0.48, 0.48]
    rate = sum(known["rates"]) / 2
    following = rate * (1 - 0.5 * known["marks"]) if known["marks"] > 0.02 else rate + 0.01
    return [following, following]
    ### END SOLUTION


# %% [markdown]
# ## 3. Train (30 points for the policy)
#
# `home()` always has 10 Mb/s. **Predict** how a policy trained there does at 6 Mb/s. Then train a second one
# where the core link varies. Its observations have the same form.

# %%
Path("runs").mkdir(exist_ok=True)


def trained(name, scenario):
    """Train PPO, or return the policy of an earlier run."""
    policy = Path("runs") / name / "final.zip"
    if not policy.is_file():
        train(
            "ppo",
            scenario,
            total_steps=STEPS,
            out=policy.parent,
            seed=1,
            hyper_parameters={"gamma": 0.5},
            resume=policy.parent.is_dir(),  # an interrupted training goes on
        )
    return policy


HOME_POLICY = trained("home", home())
### BEGIN SOLUTION
### TODO: train a policy where the core link varies, and hand that one in
### >>> MY_POLICY = HOME_POLICY
MY_POLICY = trained("varied", varied())
### END SOLUTION
shutil.copyfile(MY_POLICY, "policy.zip")

# %% [markdown]
# **Required plot:** return over the core link's rate, for the constant 0.48, your rule and both policies.
# Three to ten Mb/s; 4, 6 and 8 were not used in any training.

# %%
rates_bps = [3e6, 4e6, 5e6, 6e6, 7e6, 8e6, 10e6]
figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
results = {
    "constant 0.48": [play_rule(lambda known: [0.48, 0.48], rate).total for rate in rates_bps],
    "your rule": [play_rule(act, rate).total for rate in rates_bps],
    "PPO, trained at home": [play_policy(HOME_POLICY, rate).total for rate in rates_bps],
    "PPO, yours": [play_policy(MY_POLICY, rate).total for rate in rates_bps],
}
for name, totals in results.items():
    axis.plot([rate / 1e6 for rate in rates_bps], totals, "o-", label=name)
    print(f"{name:22}", [round(total) for total in totals])
axis.set(xlabel="core link (Mb/s)", ylabel="return of an episode")
axis.legend()
plt.show()

# %% [markdown]
# ## 4. The gap (15 points)
#
# How much does a way of training lose on another link? You have one policy of each way. Another seed of the
# episode changes a return hardly at all, by 0.1 at home. Another training changes it by 3 to 4 there, and by
# 16 where the policy fails. An interval over episodes would be very short, and would say nothing about the
# next training. So the interval has to be over trainings (Henderson et al., Deep Reinforcement Learning that
# Matters, AAAI 2018).
#
# Ten trainings of each kind were recorded for you. `returns("home", 10)` has one value for each training at
# home: its mean return over five test episodes with a core link of 10 Mb/s. `returns("home", 6)` has those of
# the same policies, in the same order, at 6 Mb/s. Return the mean of the differences, training by training,
# and half of its 95 % interval: `t` standard errors of the mean (with `ddof=1`). `t` is the 97.5 % quantile
# of Student's distribution. It is 2.26 for ten values, and approaches 1.96 if there are many.


# %%
def gap(home_returns, away_returns, t):
    """Return [mean difference, t times its standard error].

    Args:
        home_returns: Return of each training on the home link, an array.
        away_returns: Returns of the same trainings on another link, an array.
        t: Quantile of Student's distribution for their number.
    """
    ### BEGIN SOLUTION
    ### TODO: differences first, then their mean and error
    ### >>> return [0.0, 0.0]
    differences = home_returns - away_returns
    return [np.mean(differences), t * np.std(differences, ddof=1) / np.sqrt(len(differences))]
    ### END SOLUTION


# %%
T = 2.26  # for ten trainings
for recipe in ("home", "varied"):
    at_10, at_6 = returns(recipe, 10), returns(recipe, 6)
    mean, half = gap(at_10, at_6, T)
    print(f"trained on {recipe} links: {np.mean(at_10):.1f} at 10 Mb/s, {np.mean(at_6):.1f} at 6 Mb/s")
    print(f"  gap {mean:.1f} +- {half:.1f} (95 %); at 6 Mb/s trainings have an sd of {at_6.std(ddof=1):.1f}")
episodes = [play_policy(MY_POLICY, 6e6, seed).total for seed in range(20_000, 20_005)]
print(f"your policy at 6 Mb/s: episodes have an sd of {np.std(episodes, ddof=1):.1f}")

# %% [markdown]
# ## Questions
#
# 1. The home policy sees queueing delay and marks, and lowers its rates where the core link is slower. Why
#    does it react too little at 6 Mb/s?
# 2. The constant beats all others at home. What does that say about the training environment? What should a
#    paper that reports the home result compare with?
# 3. Is your policy better than your rule? By how much, and what does it cost to train, to run and to explain?
#    How many trainings does your answer rest on?
# 4. Which environment, not in your training, would break your second policy too? Try one.
# 5. Which of your predictions was wrong, and what did you miss?
#
# *Your predictions, from before you ran a cell:*
#
# *Your answers:*
