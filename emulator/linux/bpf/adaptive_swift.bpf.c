/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The law `adaptive_swift`, as the simulator has it (emulator/packets/transports/searched/adaptive_swift.py): at
 * each ACK the window follows the queue that the round trip tells of, around a target that adapts to other laws.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "kernel.h"

#include "decisions/adaptive_swift.h"

#define CONSTANTS_MAP sgswcon_0000
#include "searched_law.h"

char LICENSE[] SEC("license") = "GPL";

INLINE void law_begin(struct constants *constants, struct law *law, u32 packets, struct tcp_sock *tp)
{
	law_start(constants, law, packets, tp->tcp_mstamp);
}

INLINE void law_answer(struct constants *constants, struct law *law, struct tcp_sock *tp, const struct known *known,
		       const struct rate_sample *sample, bool marked, bool may_grow)
{
	struct told told = {
		.rtt_ns = sample->rtt_us > 0 ? smaller(sample->rtt_us, LONGEST_RTT_US) * 1000ull : 0,
		.base_rtt_ns = tp->rtt_min.s[0].v * 1000ull,
		.rtt_change_ns = known->rtt_change_ns,
		.present_rtt_us = present_rtt_us(tp),
		.now_us = tp->tcp_mstamp,
		.line_ns = known->line_ns,
		.marked = marked,
	};

	if (law_follow(constants, law, &told) && may_grow &&
	    limits_the_flow(tp, law->packets, true, TOGETHER))
		law->packets = bounded(law_grow(constants, law, &told, sample->acked_sacked));
}

/* Without a round trip, as while a time-out is repaired, the smoothed one is that of the queue before it. */
INLINE u32 law_pacing_rtt_us(struct tcp_sock *tp, const struct rate_sample *sample)
{
	return sample->rtt_us > 0 ? present_rtt_us(tp) : tp->rtt_min.s[0].v;
}

INLINE bool law_is_draining(struct drains *drains, struct tcp_sock *tp, u32 line_ns, const struct rate_sample *sample)
{
	struct round_trip seen = {
		.now_us = tp->tcp_mstamp,
		.rtt_us = sample->rtt_us > 0 ? sample->rtt_us : 0,
		.least_us = tp->rtt_min.s[0].v,
		.present_us = present_rtt_us(tp),
		.line_ns = line_ns,
	};

	return is_draining(drains, &seen);
}

INLINE void law_losing(struct constants *constants, struct law *law, struct tcp_sock *tp)
{
	law_lose(constants, law, tp->tcp_mstamp);
}

OPERATIONS(sgswift_0000);
