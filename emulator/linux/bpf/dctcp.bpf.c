/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCTCP, written from RFC 8257: the window shrinks with the fraction of bytes that were marked.
 *
 * Once a window of data the estimate alpha moves by g = 1/16 to the marked fraction of that window (3.3). An
 * ACK with ECE makes TCP enter the state CWR, at most once a window, in which the window goes down to the
 * threshold given here: cwnd * (1 - alpha / 2). A loss halves it (3.5); growth is Reno's.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "receiver.h"

#define ONE (1u << 20) /* alpha is a fixed-point number */
#define GAIN_SHIFT 4

char LICENSE[] SEC("license") = "GPL";

struct state {
	struct receiver receiver;
	u32 alpha;
	u32 window_end;
	u32 delivered; /* at the beginning of the window */
	u32 delivered_ce;
	u32 loss_cwnd;
	u32 connection_state;
};

INLINE void begin_window(struct state *state, struct tcp_sock *tp)
{
	state->window_end = tp->snd_nxt;
	state->delivered = tp->delivered;
	state->delivered_ce = tp->delivered_ce;
}

SEC("struct_ops")
void BPF_PROG(dctcp_init, struct sock *sk)
{
	struct state *state = PRIVATE(sk);

	receiver_init(&state->receiver, sk);
	state->alpha = ONE; /* the first mark halves the window (4.2) */
	state->loss_cwnd = 0;
	state->connection_state = TCP_CA_Open;
	begin_window(state, (struct tcp_sock *)sk);
}

SEC("struct_ops")
void BPF_PROG(dctcp_in_ack_event, struct sock *sk, u32 flags)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	u32 delivered, marked, fraction;

	if (behind(tp->snd_una, state->window_end))
		return;
	delivered = tp->delivered - state->delivered;
	marked = tp->delivered_ce - state->delivered_ce;
	if (delivered) {
		if (marked > delivered)
			marked = delivered;
		fraction = (u64)marked * ONE / delivered;
		state->alpha = state->alpha - (state->alpha >> GAIN_SHIFT) + (fraction >> GAIN_SHIFT);
		if (state->alpha < 1 << GAIN_SHIFT)
			state->alpha = 0; /* the shift leaves this rest for ever */
	}
	begin_window(state, tp);
}

SEC("struct_ops")
u32 BPF_PROG(dctcp_ssthresh, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct state *state = PRIVATE(sk);
	u32 window = tp->snd_cwnd;

	state->loss_cwnd = window;
	return larger(window - ((u64)window * state->alpha / ONE) / 2, 2);
}

INLINE void halve_at_loss(struct tcp_sock *tp, struct state *state)
{
	state->loss_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = larger(tp->snd_cwnd >> 1, 2);
}

SEC("struct_ops")
void BPF_PROG(dctcp_set_state, struct sock *sk, u8 new_state)
{
	struct state *state = PRIVATE(sk);

	if (new_state == TCP_CA_Recovery && state->connection_state != TCP_CA_Recovery)
		halve_at_loss((struct tcp_sock *)sk, state);
	state->connection_state = new_state;
}

SEC("struct_ops")
void BPF_PROG(dctcp_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct state *state = PRIVATE(sk);

	if (event == bpf_core_enum_value(enum tcp_ca_event, CA_EVENT_LOSS))
		halve_at_loss((struct tcp_sock *)sk, state);
	else
		receiver_event(&state->receiver, sk, event);
}

SEC("struct_ops")
void BPF_PROG(dctcp_cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
u32 BPF_PROG(dctcp_undo_cwnd, struct sock *sk)
{
	struct state *state = PRIVATE(sk);

	return larger(((struct tcp_sock *)sk)->snd_cwnd, state->loss_cwnd);
}

SEC(".struct_ops")
struct tcp_congestion_ops sgdctcp_0000 = {
	.init = (void *)dctcp_init,
	.in_ack_event = (void *)dctcp_in_ack_event,
	.ssthresh = (void *)dctcp_ssthresh,
	.set_state = (void *)dctcp_set_state,
	.cwnd_event = (void *)dctcp_cwnd_event,
	.cong_avoid = (void *)dctcp_cong_avoid,
	.undo_cwnd = (void *)dctcp_undo_cwnd,
	.flags = CONGESTION_CONTROL_NEEDS_ECN,
	.name = "sgdctcp_0000",
};
