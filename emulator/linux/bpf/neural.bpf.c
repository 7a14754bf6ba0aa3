/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The law `neural`, as the simulator has it (emulator/packets/transports/neural.py): DCTCP's sender and receiver,
 * paced, and once a round trip a small network says how to correct the window, by how much it grows in the next
 * round trip, and how fast it is sent.
 *
 * The network lies in a map that user space writes before there are connections; a connection's slot in
 * `actions` says which one is its. What the simulator knows and a host does not, the empty round trip, is the
 * least that the kernel has seen. Without a network the law is DCTCP.
 *
 * Two things are the kernel's: it paces a connection from its tenth packet on, and a slower pace holds from the
 * packet after the next. Growth asks whether the window was the limit in the last window of data, where the
 * simulator asks at each ACK.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "actions.h"
#include "network.h"
#include "receiver.h"
#include "window.h"

#define GAIN_SHIFT 4 /* g = 1/16 (RFC 8257, 4.2) */
#define LEAST_PACKETS (FIXED_ONE / 100)
#define MOST_PACKETS (0xffffu << FIXED_SHIFT)
#define LEAST_SSTHRESH (2 * FIXED_ONE)
#define FIRST_PACE (2 * FIXED_ONE)
#define LEAVES_SLOW_START (FIXED_ONE * 9 / 10)

char LICENSE[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PARAMETER_SETS);
	__type(key, u32);
	__type(value, struct network);
} sgnets_0000 SEC(".maps");

struct state {
	struct receiver receiver;
	struct window window;
	u32 packets; /* the window with its fraction; may be less than one packet */
	u32 ssthresh; /* with its fraction, too */
	u32 alpha; /* moving average of the marked fraction */
	u32 first_delivered;
	struct decision decision;
	u8 lost;
	u8 timed_out; /* without a reduction yet */
	/* of this round trip */
	u16 rtt_samples;
	u64 rtt_sum_us;
	u32 rtt_least_us;
	u32 round_end;
	u32 delivered; /* tp->delivered at its beginning */
	u32 delivered_ce;
};

_Static_assert(sizeof(struct state) <= PRIVATE_BYTES, "a connection has no more room");

INLINE struct network *network_of(struct action *action)
{
	u32 number = action ? action->parameters : PARAMETER_SETS;

	return bpf_map_lookup_elem(&sgnets_0000, &number);
}

INLINE void begin_round(struct state *state, struct tcp_sock *tp)
{
	state->round_end = tp->snd_nxt;
	state->delivered = tp->delivered;
	state->delivered_ce = tp->delivered_ce;
	state->rtt_sum_us = 0;
	state->rtt_samples = 0;
	state->rtt_least_us = 0;
	state->lost = 0;
}

INLINE u32 bounded(u64 packets)
{
	if (packets < LEAST_PACKETS)
		return LEAST_PACKETS;
	return packets < MOST_PACKETS ? packets : MOST_PACKETS;
}

/* Below one packet, one packet is in flight at a time, and the pace is that of the window. */
INLINE void set_window(struct state *state, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	u64 rtt_us = larger(tp->srtt_us >> 3, tp->rtt_min.s[0].v);
	u64 pace = FIXED_ONE, packets_a_round;

	state->packets = bounded(smaller(state->packets, smaller(tp->snd_cwnd_clamp, 0xffff) << FIXED_SHIFT));
	state->window.ssthresh = larger(state->ssthresh >> FIXED_SHIFT, MIN_CWND);
	tp->snd_ssthresh = state->window.ssthresh;
	window_set(&state->window, tp, larger(state->packets >> FIXED_SHIFT, 1));
	if (!tp->srtt_us || !rtt_us)
		return;
	if (state->packets >= FIXED_ONE)
		pace = state->decision.pace;
	packets_a_round = pace * state->packets >> 20; /* in 2^-12, so that the product fits */
	window_pace_at(sk, packets_a_round * tp->mss_cache * 1000000 / rtt_us >> 12);
}

SEC("struct_ops")
void BPF_PROG(neural_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct network *network = network_of(action_of(sk));
	fixed share = network ? fixed_exp2(network->first_window) : FIXED_ONE;

	receiver_init(&state->receiver, sk);
	window_init(&state->window, tp);
	state->ssthresh = ~0u;
	state->alpha = FIXED_ONE;
	state->timed_out = 0;
	state->first_delivered = tp->delivered; /* excludes the SYN, which counts as a packet */
	state->decision.correction = 0;
	state->decision.growth = FIXED_ONE;
	state->decision.pace = FIRST_PACE;
	state->packets = (u64)tp->snd_cwnd * (share < FIXED_ONE ? share : FIXED_ONE);
	begin_round(state, tp);
	set_window(state, sk);
}

/* Measurements of the round that has ended. */
INLINE struct seen look(struct state *state, struct tcp_sock *tp, u32 marked_share, u64 line_ns)
{
	struct seen seen = {
		.mean_rtt_us = state->rtt_sum_us / larger(state->rtt_samples, 1),
		.least_rtt_us = state->rtt_least_us,
		.base_rtt_us = larger(tp->rtt_min.s[0].v, 1),
		.line_ns = line_ns,
		.packets = state->packets,
		.delivered = tp->delivered - state->first_delivered,
		.marked_share = marked_share,
		.alpha = state->alpha,
		.lost = state->lost,
		.correction = state->decision.correction,
	};

	return seen;
}

/* DCTCP's reduction if there were marks (RFC 8257, 3.3), then the network's correction. */
INLINE void end_round(struct state *state, struct tcp_sock *tp, struct action *action)
{
	struct network *network = network_of(action);
	u32 delivered = tp->delivered - state->delivered;
	u32 marked = tp->delivered_ce - state->delivered_ce;
	u32 share = ((u64)smaller(marked, delivered) << FIXED_SHIFT) / larger(delivered, 1);
	u64 factor = FIXED_ONE;

	state->alpha += (share >> GAIN_SHIFT) - (state->alpha >> GAIN_SHIFT);
	if (network && action) {
		struct seen seen = look(state, tp, share, action->line_ns);
		int inputs[N_INPUTS];

		network_look(&seen, inputs);
		network_decide(network, inputs, &state->decision);
		factor = fixed_exp2(state->decision.correction);
	}
	if (marked)
		factor = factor * (FIXED_ONE - state->alpha / 2) >> FIXED_SHIFT;
	if (!state->lost || factor < FIXED_ONE)
		state->packets = bounded(state->packets * factor >> FIXED_SHIFT);
	if (factor < LEAVES_SLOW_START)
		state->ssthresh = smaller(state->ssthresh, state->packets);
	begin_round(state, tp);
}

/* A loss halves the window (RFC 8257, 3.5); after a time-out it is one packet (RFC 5681, 3.1). */
INLINE bool after_losses(struct state *state, struct tcp_sock *tp)
{
	struct window *window = &state->window;
	u32 recovery_end = window->recovery_end;
	bool may_grow = window_after_losses(window, tp, HALF_1024THS);

	if (state->timed_out) {
		state->timed_out = 0;
		state->ssthresh = larger(state->packets / 2, LEAST_SSTHRESH);
		state->packets = FIXED_ONE;
		window->timed_out = 1;
		begin_round(state, tp);
		state->lost = 1;
		return true;
	}
	if (window->recovery_end != recovery_end) {
		state->packets /= 2;
		state->ssthresh = larger(state->packets, LEAST_SSTHRESH);
		state->lost = 1;
	}
	return may_grow;
}

INLINE bool limits_the_flow(struct state *state, struct tcp_sock *tp, bool slow_start)
{
	return BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) || state->packets < FIXED_ONE ||
	       (slow_start && tp->snd_cwnd < 2 * tp->max_packets_out);
}

/* Double in slow start, else grow per round trip by the network's output. */
INLINE void grow(struct state *state, struct tcp_sock *tp, u32 acked)
{
	bool slow_start = state->packets < state->ssthresh;
	u64 share;

	if (!limits_the_flow(state, tp, slow_start))
		return;
	if (slow_start) {
		state->packets = bounded(state->packets + ((u64)smaller(acked, 2) << FIXED_SHIFT));
		return;
	}
	share = ((u64)acked << (2 * FIXED_SHIFT)) / larger(state->packets, FIXED_ONE);
	if (share > FIXED_ONE)
		share = FIXED_ONE;
	state->packets = bounded(state->packets + (state->decision.growth * share >> FIXED_SHIFT));
}

INLINE void take_sample(struct state *state, const struct rate_sample *sample)
{
	u32 rtt_us = sample->rtt_us;

	if (sample->rtt_us <= 0)
		return;
	state->rtt_sum_us += rtt_us;
	state->rtt_samples += 1;
	if (state->rtt_least_us == 0 || rtt_us < state->rtt_least_us)
		state->rtt_least_us = rtt_us;
}

INLINE void neural_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	bool may_grow = after_losses(state, tp);

	take_sample(state, sample);
	if (window_marked(&state->window, tp))
		state->ssthresh = smaller(state->ssthresh, state->packets);
	else if (may_grow)
		grow(state, tp, sample->acked_sacked);
	if (behind(state->round_end, tp->snd_una) && state->rtt_samples)
		end_round(state, tp, action_of(sk));
	set_window(state, sk);
	if (flow)
		report_round_trip(flow, sample);
	window_finish(&state->window, sk, sample->acked_sacked);
}

CONG_CONTROL(neural)
RESULTS(neural)

SEC("struct_ops")
void BPF_PROG(neural_set_state, struct sock *sk, u8 new_state)
{
	struct state *state = PRIVATE(sk);

	window_set_state(&state->window, (struct tcp_sock *)sk, new_state);
	if (new_state == TCP_CA_Loss)
		state->timed_out = 1;
}

SEC("struct_ops")
void BPF_PROG(neural_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	receiver_event(&state->receiver, sk, event);
}

SEC(".struct_ops")
struct tcp_congestion_ops sgneur_0000 = {
	.init = (void *)neural_init,
	.cong_control = (void *)neural_cong_control,
	.ssthresh = (void *)neural_ssthresh,
	.set_state = (void *)neural_set_state,
	.undo_cwnd = (void *)neural_undo_cwnd,
	.cwnd_event = (void *)neural_cwnd_event,
	.flags = CONGESTION_CONTROL_NEEDS_ECN,
	.name = "sgneur_0000",
};
