/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * DCTCP's sender, written from RFC 8257: the window shrinks with the fraction of packets that were marked.
 *
 * Once a window of data the estimate alpha moves by g = 1/16 to the marked fraction of that window (3.3, steps
 * 1 to 8), and where there are marks the window becomes cwnd * (1 - alpha / 2), once a window. A loss halves it
 * (3.5); growth is Reno's.
 */
#ifndef SYSGYM_DCTCP_H
#define SYSGYM_DCTCP_H

#include "window.h"

#define ALPHA_ONE (1u << 20) /* alpha is a fixed-point number */
#define GAIN_SHIFT 4

struct dctcp {
	u32 alpha;
	u32 round_end;
	u32 delivered; /* at the beginning of the round */
	u32 delivered_ce;
};

INLINE void dctcp_begin_round(struct dctcp *dctcp, struct tcp_sock *tp)
{
	dctcp->round_end = tp->snd_nxt;
	dctcp->delivered = tp->delivered;
	dctcp->delivered_ce = tp->delivered_ce;
}

INLINE void dctcp_start(struct dctcp *dctcp, struct tcp_sock *tp)
{
	dctcp->alpha = ALPHA_ONE; /* the first mark halves the window (4.2) */
	dctcp_begin_round(dctcp, tp);
}

INLINE void dctcp_end_round(struct dctcp *dctcp, struct tcp_sock *tp)
{
	u32 delivered = tp->delivered - dctcp->delivered;
	u32 marked = tp->delivered_ce - dctcp->delivered_ce;

	if (delivered) {
		u32 fraction = (u64)smaller(marked, delivered) * ALPHA_ONE / delivered;

		dctcp->alpha = dctcp->alpha - (dctcp->alpha >> GAIN_SHIFT) + (fraction >> GAIN_SHIFT);
		if (dctcp->alpha < 1 << GAIN_SHIFT)
			dctcp->alpha = 0; /* the shift leaves this rest for ever */
	}
	dctcp_begin_round(dctcp, tp);
}

/* Losses, marks and growth. */
INLINE void dctcp_react(struct dctcp *dctcp, struct window *window, struct sock *sk, u32 ack, u32 acked,
			bool marked)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	bool may_grow = window_after_losses(window, tp, HALF_1024THS);

	if (!behind(tp->snd_una, dctcp->round_end))
		dctcp_end_round(dctcp, tp);
	if (marked) {
		if (may_grow && window_due(window, tp)) {
			u32 cut = ((u64)window->cwnd * dctcp->alpha / ALPHA_ONE) / 2;

			window_reduce(window, tp, window->cwnd - cut);
		}
	} else if (may_grow) {
		window_grow(window, sk, ack, acked);
	}
}

#endif
