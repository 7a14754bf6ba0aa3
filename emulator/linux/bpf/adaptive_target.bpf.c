/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * The law `adaptive_target`, as the simulator has it (emulator/packets/transports/searched/adaptive_target.py): once
 * a round trip the window follows the queue that the round's delay tells of, around a target that adapts to other
 * laws.
 *
 * The licence string must say GPL: the kernel admits congestion controls under no other licence. That is why
 * this file may be used under the GPL as well as under the project's licence.
 */
#include "kernel.h"

#include "decisions/adaptive_target.h"

#define CONSTANTS_MAP sgconst_0000
#include "searched_law.h"

char LICENSE[] SEC("license") = "GPL";

INLINE void law_begin(struct constants *constants, struct law *law, u32 packets, struct tcp_sock *tp)
{
	law_start(law, packets);
}

INLINE void law_answer(struct constants *constants, struct law *law, struct tcp_sock *tp, const struct known *known,
		       const struct rate_sample *sample, bool marked, bool may_grow)
{
	if (marked)
		law_heed_mark(law);
	if (may_grow)
		law->packets = grown(tp, law->packets, law->ssthresh, law_growth(law), sample->acked_sacked);
}

INLINE u32 law_pacing_rtt_us(struct tcp_sock *tp, const struct rate_sample *sample)
{
	return present_rtt_us(tp);
}

INLINE bool law_is_draining(struct drains *drains, struct tcp_sock *tp, u32 line_ns, const struct rate_sample *sample)
{
	return false;
}

INLINE void law_losing(struct constants *constants, struct law *law, struct tcp_sock *tp)
{
	law_lose(constants, law);
}

OPERATIONS(sgtarg_0000);
