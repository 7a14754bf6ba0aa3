/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCTCP, written from RFC 8257: the window shrinks with the fraction of packets that were marked.
 *
 * Once a window of data the estimate alpha moves by g = 1/16 to the marked fraction of that window (3.3, steps
 * 1 to 8), and where there are marks the window becomes cwnd * (1 - alpha / 2), once a window. A loss halves it
 * (3.5); growth is Reno's.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "receiver.h"
#include "window.h"

#define ONE (1u << 20) /* alpha is a fixed-point number */
#define GAIN_SHIFT 4

char LICENSE[] SEC("license") = "GPL";

struct state {
	struct receiver receiver;
	struct window window;
	u32 alpha;
	u32 round_end;
	u32 delivered; /* at the beginning of the round */
	u32 delivered_ce;
};

INLINE void begin_round(struct state *state, struct tcp_sock *tp)
{
	state->round_end = tp->snd_nxt;
	state->delivered = tp->delivered;
	state->delivered_ce = tp->delivered_ce;
}

INLINE void end_round(struct state *state, struct tcp_sock *tp)
{
	u32 delivered = tp->delivered - state->delivered;
	u32 marked = tp->delivered_ce - state->delivered_ce;

	if (delivered) {
		u32 fraction = (u64)(marked < delivered ? marked : delivered) * ONE / delivered;

		state->alpha = state->alpha - (state->alpha >> GAIN_SHIFT) + (fraction >> GAIN_SHIFT);
		if (state->alpha < 1 << GAIN_SHIFT)
			state->alpha = 0; /* the shift leaves this rest for ever */
	}
	begin_round(state, tp);
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);

	receiver_init(&state->receiver, sk);
	window_init(&state->window, tp);
	state->alpha = ONE; /* the first mark halves the window (4.2) */
	begin_round(state, tp);
}

INLINE void dctcp_on_ack(struct sock *sk, u32 ack, const struct rate_sample *sample)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	struct window *window = &state->window;
	bool may_grow = window_after_losses(window, tp, HALF_1024THS);
	bool marked = window_marked(window, tp);

	if (!behind(tp->snd_una, state->round_end))
		end_round(state, tp);
	if (marked) {
		if (may_grow && window_due(window, tp)) {
			u32 cut = ((u64)window->cwnd * state->alpha / ONE) / 2;

			window_reduce(window, tp, window->cwnd - cut);
		}
	} else if (may_grow) {
		window_grow(window, sk, ack, sample->acked_sacked);
	}
	window_pace(sk);
}

CONG_CONTROL(dctcp)
RESULTS(dctcp)

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	receiver_event(&state->receiver, sk, event);
}

SEC(".struct_ops")
struct tcp_congestion_ops sgdctcp_0000 = {
	.init = (void *)dctcp_init,
	.cong_control = (void *)dctcp_cong_control,
	.ssthresh = (void *)dctcp_ssthresh,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.flags = CONGESTION_CONTROL_NEEDS_ECN,
	.name = "sgdctcp_0000",
};
