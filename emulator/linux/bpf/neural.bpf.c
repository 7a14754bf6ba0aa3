/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The law `neural`, as the simulator has it (emulator/packets/transports/searched/neural.py): DCTCP's sender and
 * receiver, paced, and once a round trip a small network says how to correct the window, by how much it grows in the
 * next round trip, and how fast it is sent.
 *
 * The network lies in a map that user space writes before there are connections; a connection's slot in
 * `actions` says which one is its. What the simulator knows and a host does not, the empty round trip, is the
 * least that the kernel has seen. Without a network the law is DCTCP.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "actions.h"
#include "decisions/network.h"
#include "receiver.h"
#include "rounds.h"

#define GAIN_SHIFT 4 /* g = 1/16 (RFC 8257, 4.2) */
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
	struct round round;
	u32 packets; /* the window with its fraction; may be less than one packet */
	u32 ssthresh; /* with its fraction, too */
	u32 alpha; /* moving average of the marked fraction */
	u32 first_delivered;
	struct decision decision;
};

_Static_assert(sizeof(struct state) <= PRIVATE_BYTES, "a connection has no more room");

INLINE struct network *network_of(struct action *action)
{
	u32 number = action ? action->parameters : PARAMETER_SETS;

	return bpf_map_lookup_elem(&sgnets_0000, &number);
}

INLINE void apply(struct state *state, struct sock *sk)
{
	state->packets = set_window(&state->window, sk, state->packets, state->ssthresh, state->decision.pace, 1,
				    present_rtt_us((struct tcp_sock *)sk));
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
	state->round.timed_out = 0;
	state->first_delivered = tp->delivered; /* excludes the SYN, which counts as a packet */
	state->decision.correction = 0;
	state->decision.growth = FIXED_ONE;
	state->decision.pace = FIRST_PACE;
	state->packets = (u64)tp->snd_cwnd * (share < FIXED_ONE ? share : FIXED_ONE);
	round_begin(&state->round, tp);
	apply(state, sk);
}

/* Measurements of the round that has ended. */
INLINE struct seen look(struct state *state, struct tcp_sock *tp, u32 marked_share, u64 line_ns)
{
	struct seen seen = {
		.mean_rtt_us = state->round.rtt_sum_us / larger(state->round.rtt_samples, 1),
		.least_rtt_us = state->round.rtt_least_us,
		.base_rtt_us = larger(tp->rtt_min.s[0].v, 1),
		.line_ns = line_ns,
		.packets = state->packets,
		.delivered = tp->delivered - state->first_delivered,
		.marked_share = marked_share,
		.alpha = state->alpha,
		.lost = state->round.lost,
		.correction = state->decision.correction,
	};

	return seen;
}

/* DCTCP's reduction if there were marks (RFC 8257, 3.3), then the network's correction. */
INLINE void end_round(struct state *state, struct tcp_sock *tp, struct action *action)
{
	struct network *network = network_of(action);
	u32 share = round_marked_share(&state->round, tp);
	u64 factor = FIXED_ONE;

	state->alpha += (share >> GAIN_SHIFT) - (state->alpha >> GAIN_SHIFT);
	if (network && action) {
		struct seen seen = look(state, tp, share, action->line_ns);
		int inputs[N_INPUTS];

		network_look(&seen, inputs);
		network_decide(network, inputs, &state->decision);
		factor = fixed_exp2(state->decision.correction);
	}
	if (round_marked(&state->round, tp))
		factor = factor * (FIXED_ONE - state->alpha / 2) >> FIXED_SHIFT;
	if (!state->round.lost || factor < FIXED_ONE)
		state->packets = bounded(state->packets * factor >> FIXED_SHIFT);
	if (factor < LEAVES_SLOW_START)
		state->ssthresh = smaller(state->ssthresh, state->packets);
	round_begin(&state->round, tp);
}

/* A loss halves the window (RFC 8257, 3.5); after a time-out it is one packet (RFC 5681, 3.1). */
INLINE bool after_losses(struct state *state, struct tcp_sock *tp)
{
	enum news news = news_of_losses(&state->round, &state->window, tp);

	if (news == TIMED_OUT || news == BEGINS_TO_RECOVER) {
		state->packets /= 2;
		state->ssthresh = larger(state->packets, LEAST_SSTHRESH);
	}
	if (news == TIMED_OUT)
		state->packets = FIXED_ONE;
	return news == NO_NEWS || news == TIMED_OUT;
}

INLINE void neural_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	bool may_grow = after_losses(state, tp);

	round_sample(&state->round, sample);
	if (window_marked(&state->window, tp))
		state->ssthresh = smaller(state->ssthresh, state->packets);
	else if (may_grow)
		state->packets = grown(tp, state->packets, state->ssthresh, state->decision.growth,
				       sample->acked_sacked);
	if (round_is_over(&state->round, tp))
		end_round(state, tp, action_of(sk));
	apply(state, sk);
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
		state->round.timed_out = 1;
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
