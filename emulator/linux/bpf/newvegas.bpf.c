/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * TCP New Vegas: at most about ten packets of a flow in the queue, judged by the best rate at the least RTT.
 *
 * The algorithm of Lawrence Brakmo's TCP-NV, written anew from its description and constants: once a round trip
 * the window is compared with the one that the round's best delivery rate needs at the minimum RTT.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "reports.h"
#include "window.h"

#define PAD_PACKETS 10 /* allowed to queue */
#define GROWTH_GAP_PACKETS 2
#define DECREASE_128THS 38 /* of the excess, at a congestion decision */
#define LOSS_1024THS 819
#define SAMPLES_TO_SHRINK 60
#define SAMPLES_TO_LEAVE_SLOW_START 30
#define SAMPLES_TO_GROW 20
#define ROUNDS_BETWEEN_DECISIONS 2
#define ROUNDS_WITHOUT_SAMPLES 10
#define MOST_GROWTH_SHIFT 8
#define FIRST_RESET_NS 2000000000ull
#define RESET_NS 5000000000ull
#define RATE_SHIFT 20 /* rates are packets/us in fixed point */

char LICENSE[] SEC("license") = "GPL";

struct state {
	u64 max_rate; /* in this round trip */
	u64 reset_at_ns; /* when the minimum RTT is taken from a newer window */
	struct window window;
	u32 avg_rtt_us;
	u32 min_rtt_us;
	u32 next_min_rtt_us;
	u32 round_end;
	u32 growth_count;
	u16 samples; /* since the last decision */
	u16 rounds; /* since the last decision */
	u8 growth_allowed;
	u8 growth_shift; /* Reno's growth divided by 2^shift */
	u8 recovering;
};

SEC("struct_ops")
void BPF_PROG(newvegas_init, struct sock *sk)
{
	struct state *state = PRIVATE(sk);

	__builtin_memset(state, 0, sizeof(*state));
	state->growth_allowed = 1;
	state->reset_at_ns = bpf_ktime_get_ns() + FIRST_RESET_NS;
	state->round_end = ((struct tcp_sock *)sk)->snd_nxt;
	window_init(&state->window, (struct tcp_sock *)sk);
}

/* Smoothed RTT, its minimum over some seconds, and the round's best rate. */
INLINE void take_sample(struct state *state, struct tcp_sock *tp, u32 rtt_us, u32 in_flight_bytes)
{
	u64 now_ns = bpf_ktime_get_ns();
	u32 segment = tp->mss_cache;
	u64 rate;

	if (state->avg_rtt_us == 0) {
		state->avg_rtt_us = rtt_us;
		state->min_rtt_us = 2 * rtt_us;
		state->next_min_rtt_us = 2 * rtt_us;
	} else {
		state->avg_rtt_us = (state->avg_rtt_us + rtt_us + 1) / 2;
	}
	if (state->avg_rtt_us < state->min_rtt_us)
		state->min_rtt_us = state->avg_rtt_us;
	if (state->avg_rtt_us < state->next_min_rtt_us)
		state->next_min_rtt_us = state->avg_rtt_us;
	if (segment == 0)
		return;
	rate = ((u64)in_flight_bytes << RATE_SHIFT) / segment / state->avg_rtt_us;
	if (rate > state->max_rate)
		state->max_rate = rate;
	if (state->samples < 0xffff)
		state->samples += 1;
	if (now_ns >= state->reset_at_ns) {
		/* 0.75 to 1.25 of the period, so that flows do not reset at the same time */
		u64 spread = RESET_NS / 2 * (bpf_get_prandom_u32() & 1023) / 1024;

		state->min_rtt_us = state->next_min_rtt_us;
		state->next_min_rtt_us = 2 * state->avg_rtt_us;
		state->reset_at_ns = now_ns + RESET_NS * 3 / 4 + spread;
	}
}

INLINE void decide_congested(struct state *state, struct tcp_sock *tp, u32 most)
{
	struct window *window = &state->window;
	bool slow_started = window->ssthresh < UNKNOWN_SSTHRESH;
	u32 needed = slow_started ? SAMPLES_TO_SHRINK : SAMPLES_TO_LEAVE_SLOW_START;
	u32 excess = window->cwnd - most;

	if (state->rounds < ROUNDS_BETWEEN_DECISIONS)
		return;
	if (state->samples < needed) {
		if (state->rounds > ROUNDS_WITHOUT_SAMPLES)
			state->growth_allowed = 0;
		return;
	}
	window->ssthresh = larger(most, MIN_CWND);
	tp->snd_ssthresh = window->ssthresh;
	if (excess > 2)
		most = window->cwnd - larger(2, (u64)excess * DECREASE_128THS / 128);
	window_set(window, tp, larger(most, MIN_CWND));
	state->growth_allowed = 0;
	state->samples = 0;
	state->rounds = 0;
}

/* Once per round trip: compare the window with the one that the path needs. */
INLINE void end_round(struct state *state, struct tcp_sock *tp)
{
	u32 most = ((state->max_rate * state->min_rtt_us) >> RATE_SHIFT) + PAD_PACKETS;

	if (state->rounds < 0xffff)
		state->rounds += 1;
	if (state->window.cwnd > most) {
		decide_congested(state, tp, most);
	} else if (state->window.cwnd + GROWTH_GAP_PACKETS <= most && state->samples >= SAMPLES_TO_GROW) {
		state->growth_allowed = 1;
		if (state->growth_shift)
			state->growth_shift -= 1;
		state->samples = 0;
		state->rounds = 0;
	}
	state->max_rate = 0;
	state->round_end = tp->snd_nxt;
}

SEC("struct_ops")
void BPF_PROG(newvegas_pkts_acked, struct sock *sk, const struct ack_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);

	if (state->recovering || sample->rtt_us <= 0)
		return;
	take_sample(state, tp, sample->rtt_us, sample->in_flight);
	if (behind(state->round_end, tp->snd_una))
		end_round(state, tp);
}

INLINE void grow(struct state *state, struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct window *window = &state->window;
	u32 needed = window->cwnd << state->growth_shift;

	if (state->growth_shift == 0 || window->cwnd < window->ssthresh) {
		window_grow(window, sk, ack, acked);
		return;
	}
	if (tp->packets_out + acked < window->cwnd)
		return; /* the window does not limit the sender */
	state->growth_count += acked;
	if (state->growth_count >= needed) {
		state->growth_count = 0;
		window_set(window, tp, window->cwnd + 1);
	}
}

INLINE void newvegas_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct window *window = &state->window;
	u32 timed_out = window->timed_out;
	bool may_grow = window_after_losses(window, tp, LOSS_1024THS);
	struct flow *flow = flow_of(sk);

	if (flow)
		report_round_trip(flow, sample);
	/* After a time-out the window grows more slowly. */
	if (window->timed_out && !timed_out && state->growth_shift < MOST_GROWTH_SHIFT)
		state->growth_shift += 1;
	state->recovering = behind(tp->snd_una, window->recovery_end);
	if (window_marked(window, tp) && may_grow) {
		if (window_due(window, tp))
			window_reduce(window, tp, (u64)window->cwnd * LOSS_1024THS / 1024);
	} else if (may_grow && state->growth_allowed) {
		grow(state, sk, ack, sample->acked_sacked);
	}
	window_pace(sk);
	window_finish(window, sk, sample->acked_sacked);
}

CONG_CONTROL(newvegas)
RESULTS(newvegas)

SEC("struct_ops")
void BPF_PROG(newvegas_set_state, struct sock *sk, u8 new_state)
{
	struct state *state = PRIVATE(sk);

	window_set_state(&state->window, (struct tcp_sock *)sk, new_state);
}

SEC(".struct_ops")
struct tcp_congestion_ops sgnv_0000 = {
	.init = (void *)newvegas_init,
	.pkts_acked = (void *)newvegas_pkts_acked,
	.cong_control = (void *)newvegas_cong_control,
	.ssthresh = (void *)newvegas_ssthresh,
	.set_state = (void *)newvegas_set_state,
	.undo_cwnd = (void *)newvegas_undo_cwnd,
	.name = "sgnv_0000",
};
