/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Connections of a law with constants: `adaptive_target` and `adaptive_swift`. A program includes the law's header,
 * names its map in CONSTANTS_MAP, includes this file, and defines the functions that are declared here. The header
 * says in TOGETHER how many packets are in flight at least.
 *
 * The constants lie in a map that user space writes before there are connections; a connection's slot in `actions`
 * says which ones are its. What the simulator knows and a host does not, the empty round trip, is the least that the
 * kernel has seen; where that may be longer, the law may drain the path (decisions/drains.h). Without constants, as
 * at the end that only receives, the window stays as it is.
 */
#ifndef SYSGYM_SEARCHED_LAW_H
#define SYSGYM_SEARCHED_LAW_H

#include "actions.h"
#include "receiver.h"
#include "rounds.h"

/* What user space and the reports tell of a connection. */
struct known {
	u32 line_ns; /* time of a packet on the sender's line */
	u64 rtt_change_ns; /* average of changes from a sample to the next */
	bool just_drained;
};

/* Begin with a window of so many packets. */
INLINE void law_begin(struct constants *constants, struct law *law, u32 packets, struct tcp_sock *tp);
/* Answer to an ACK, before the end of a round. */
INLINE void law_answer(struct constants *constants, struct law *law, struct tcp_sock *tp, const struct known *known,
		       const struct rate_sample *sample, bool marked, bool may_grow);
/* The round trip by which to pace after an ACK. */
INLINE u32 law_pacing_rtt_us(struct tcp_sock *tp, const struct rate_sample *sample);
/* Whether the connection drains from this ACK on. */
INLINE bool law_is_draining(struct drains *drains, struct tcp_sock *tp, u32 line_ns, const struct rate_sample *sample);
/* Answer to the beginning of a recovery. */
INLINE void law_losing(struct constants *constants, struct law *law, struct tcp_sock *tp);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, PARAMETER_SETS);
	__type(key, u32);
	__type(value, struct constants);
} CONSTANTS_MAP SEC(".maps");

struct state {
	struct receiver receiver;
	struct window window;
	struct round round;
	struct law law;
};

_Static_assert(sizeof(struct state) <= PRIVATE_BYTES, "a connection has no more room");

INLINE struct constants *constants_of(struct action *action)
{
	u32 number = action ? action->parameters : PARAMETER_SETS;

	return bpf_map_lookup_elem(&CONSTANTS_MAP, &number);
}

INLINE void apply(struct state *state, struct sock *sk, struct constants *constants, u32 line_ns, u32 rtt_us)
{
	struct law *law = &state->law;
	u32 pace = constants ? law_pace(constants, law, packets_of_path(rtt_us * 1000ull, line_ns)) : FIXED_ONE;

	law->packets = set_window(&state->window, sk, law->packets, law_threshold(law), pace, TOGETHER, rtt_us);
}

SEC("struct_ops")
void BPF_PROG(connection_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	struct action *action = action_of(sk);
	struct constants *constants = constants_of(action);
	u64 share = constants ? constants->first_window : FIXED_ONE;

	if (flow) {
		begin_round_trips(flow);
		drains_start(&flow->drains, tp->tcp_mstamp);
	}
	receiver_init(&state->receiver, sk);
	window_init(&state->window, tp);
	state->round.timed_out = 0;
	round_begin(&state->round, tp);
	law_begin(constants, &state->law, bounded(tp->snd_cwnd * share), tp);
	apply(state, sk, constants, action ? action->line_ns : 0, present_rtt_us(tp));
}

/* Packets delivered so far include the SYN. */
INLINE void end_round(struct state *state, struct tcp_sock *tp, struct constants *constants, const struct known *known)
{
	struct round *round = &state->round;
	struct seen seen = {
		.mean_rtt_ns = round->rtt_sum_us * 1000ull / larger(round->rtt_samples, 1),
		.least_rtt_ns = round->rtt_least_us * 1000ull,
		.base_rtt_ns = tp->rtt_min.s[0].v * 1000ull,
		.line_ns = known->line_ns,
		.delivered_packets = tp->delivered,
		.marked_share = round_marked_share(round, tp),
		.lost = round->lost,
		.rtt_change_ns = known->rtt_change_ns,
		.just_drained = known->just_drained,
	};

	law_end_round(constants, &state->law, &seen);
	state->law.packets = bounded(state->law.packets);
	round_begin(round, tp);
}

INLINE bool after_losses(struct state *state, struct tcp_sock *tp, struct constants *constants)
{
	struct law *law = &state->law;
	enum news news = news_of_losses(&state->round, &state->window, tp);

	if (news == TIMED_OUT)
		law_time_out(constants, law);
	if (news == BEGINS_TO_RECOVER)
		law_losing(constants, law, tp);
	return news == NO_NEWS || news == TIMED_OUT;
}

/* Decide by an ACK; return whether a round ended with it. */
INLINE bool decide(struct state *state, struct tcp_sock *tp, struct constants *constants, const struct known *known,
		   const struct rate_sample *sample)
{
	struct law *law = &state->law;
	bool may_grow = after_losses(state, tp, constants);
	bool marked = window_marked(&state->window, tp);
	bool is_over;

	round_sample(&state->round, sample);
	law_answer(constants, law, tp, known, sample, marked, may_grow);
	is_over = round_is_over(&state->round, tp);
	if (is_over)
		end_round(state, tp, constants, known);
	return is_over;
}

/* Whether the connection drains: little but losses counts then. A time-out ends it; a round begins after it. */
INLINE bool drain(struct state *state, struct flow *flow, struct tcp_sock *tp, struct constants *constants,
		  u32 line_ns, const struct rate_sample *sample)
{
	bool was_draining = flow->drains.end_us;

	if (state->round.timed_out)
		drains_count_from(&flow->drains, tp->tcp_mstamp);
	if (law_is_draining(&flow->drains, tp, line_ns, sample)) {
		after_losses(state, tp, constants);
		window_marked(&state->window, tp);
		return true;
	}
	if (was_draining)
		round_begin(&state->round, tp);
	return false;
}

/* Set window and pace of a drain; the window after it stays as it is. */
INLINE void keep_little_in_flight(struct state *state, struct sock *sk, struct constants *constants, u32 line_ns)
{
	u32 packets = state->law.packets;

	state->law.packets = drained_window(packets);
	apply(state, sk, constants, line_ns, present_rtt_us((struct tcp_sock *)sk));
	state->law.packets = packets;
}

INLINE void connection_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct flow *flow = flow_of(sk);
	struct action *action = action_of(sk);
	struct constants *constants = constants_of(action);
	struct known known = { .line_ns = action ? action->line_ns : 0 };

	if (flow) {
		report_round_trip(flow, sample);
		known.rtt_change_ns = flow->rtt_change_ns;
		known.just_drained = flow->drains.just_drained;
	}
	if (flow && action && constants && action->path_measured &&
	    drain(state, flow, tp, constants, known.line_ns, sample)) {
		keep_little_in_flight(state, sk, constants, known.line_ns);
	} else {
		if (action && constants && decide(state, tp, constants, &known, sample) && flow)
			flow->drains.just_drained = 0;
		apply(state, sk, constants, known.line_ns, law_pacing_rtt_us(tp, sample));
	}
	window_finish(&state->window, sk, sample->acked_sacked);
}

CONG_CONTROL(connection)
RESULTS(connection)

SEC("struct_ops")
void BPF_PROG(connection_set_state, struct sock *sk, u8 new_state)
{
	struct state *state = PRIVATE(sk);

	window_set_state(&state->window, (struct tcp_sock *)sk, new_state);
	if (new_state == TCP_CA_Loss)
		state->round.timed_out = 1;
}

SEC("struct_ops")
void BPF_PROG(connection_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	receiver_event(&state->receiver, sk, event);
}

/* The congestion control of the program; user space knows it by this name. */
#define OPERATIONS(operations) \
	SEC(".struct_ops") \
	struct tcp_congestion_ops operations = { \
		.init = (void *)connection_init, \
		.cong_control = (void *)connection_cong_control, \
		.ssthresh = (void *)connection_ssthresh, \
		.set_state = (void *)connection_set_state, \
		.undo_cwnd = (void *)connection_undo_cwnd, \
		.cwnd_event = (void *)connection_cwnd_event, \
		.flags = CONGESTION_CONTROL_NEEDS_ECN, \
		.name = #operations, \
	}

#endif
