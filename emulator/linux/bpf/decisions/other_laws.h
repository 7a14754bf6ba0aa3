/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Company of other laws, as in the simulator (emulator/packets/transports/searched/other_laws.py): a target of the
 * queue that rises where decreases have no effect, marks, and how much a loss matters. It does not use the kernel,
 * so that a test can compile it for user space.
 *
 * Numbers are in 2^-16 unless their name tells a unit. Queues, paths and targets are in packets of the sender's line,
 * up to 2^24 of them; larger ones count as that, so that products of two numbers fit into 64 bits.
 */
#ifndef SYSGYM_OTHER_LAWS_H
#define SYSGYM_OTHER_LAWS_H

#include "fixed_point.h"

#define MARK_GAIN_SHIFT 4 /* g = 1/16 (RFC 8257, 4.2) */
#define SMALLEST_TARGETED (FIXED_ONE / 25)
#define MOST_QUEUE (1ll << (24 + FIXED_SHIFT))
#define MOST_STRETCH (16 * FIXED_ONE)
#define LEVEL_SHIFT 15
#define LEVEL_ONE (1 << LEVEL_SHIFT)
#define MOST_OF_A_BYTE 255

/* What a connection remembers of its company. */
struct company {
	unsigned int window_below; /* the window when the queue was last below the target */
	unsigned int queue_before_ns; /* of the last round */
	unsigned int stretch : 24; /* log2 of the target over its least */
	unsigned int counted_apart : 8; /* as `counted`, of rounds that the law counts apart */
	unsigned short alpha; /* average share of marks */
	unsigned short marks; /* slow average */
	unsigned short level; /* queue of the last round over the target, in 2^-15; more than one is all alike */
	unsigned char rests; /* rounds in which no loss matters */
	unsigned char counted; /* rounds of kinds that the law counts */
};

/* Measurements of a round trip. */
struct seen {
	unsigned long long mean_rtt_ns;
	unsigned long long least_rtt_ns;
	unsigned long long base_rtt_ns; /* of an empty path */
	unsigned int line_ns; /* time of a packet on the sender's line */
	unsigned int delivered_packets; /* so far */
	unsigned int marked_share;
	int lost;
	unsigned long long rtt_change_ns; /* average of changes from a sample to the next */
	int just_drained; /* the queue is that of a drain */
};

/* The round's queues, in packets. */
struct queues {
	fixed mean;
	fixed least;
	fixed path; /* what the empty path holds */
	fixed target;
};

FIXED_POINT fixed least_of(fixed one, fixed other)
{
	return one < other ? one : other;
}

FIXED_POINT fixed most_of(fixed one, fixed other)
{
	return one > other ? one : other;
}

/* Quotient of two numbers that are not negative: eBPF has no other division. */
FIXED_POINT fixed fixed_quotient(unsigned long long one, unsigned long long other)
{
	return other ? (one << FIXED_SHIFT) / other : 0;
}

FIXED_POINT unsigned long long delay_ns(unsigned long long rtt_ns, unsigned long long base_rtt_ns)
{
	unsigned long long delay = rtt_ns > base_rtt_ns ? rtt_ns - base_rtt_ns : 0;

	return delay < 0xffffffffu ? delay : 0xffffffffu;
}

/* Packets that the line sends in a time of up to 2^32 ns. */
FIXED_POINT fixed packets_in(unsigned long long time_ns, unsigned int line_ns)
{
	return least_of(fixed_quotient(time_ns, line_ns), MOST_QUEUE);
}

/* Packets of the line that an empty path with this round trip holds. */
FIXED_POINT fixed packets_of_path(unsigned long long rtt_ns, unsigned int line_ns)
{
	return packets_in(delay_ns(rtt_ns, 0), line_ns);
}

FIXED_POINT struct queues queues_of(const struct seen *seen)
{
	struct queues queues = {
		.mean = packets_in(delay_ns(seen->mean_rtt_ns, seen->base_rtt_ns), seen->line_ns),
		.least = packets_in(delay_ns(seen->least_rtt_ns, seen->base_rtt_ns), seen->line_ns),
		.path = packets_of_path(seen->base_rtt_ns, seen->line_ns),
	};

	return queues;
}

FIXED_POINT fixed stretched(fixed target, unsigned int stretch)
{
	unsigned int doublings = stretch >> FIXED_SHIFT;

	target = fixed_product(least_of(target, MOST_QUEUE), fixed_exp2(stretch & (FIXED_ONE - 1)));
	return least_of(target, MOST_QUEUE >> doublings) << doublings;
}

FIXED_POINT void company_start(struct company *company, unsigned int packets)
{
	company->window_below = packets;
	company->level = LEVEL_ONE; /* unknown */
	company->queue_before_ns = company->stretch = 0;
	company->alpha = company->marks = 0;
	company->rests = company->counted = company->counted_apart = 0;
}

/* An average never reaches one: it moves towards larger values by the next lower step. */
FIXED_POINT unsigned short averaged(unsigned short average, unsigned int share, int gain)
{
	return average + fixed_product(gain, (fixed)share - average);
}

/* By what marks multiply the window. */
FIXED_POINT fixed factor_of_marks(struct company *company, unsigned int share, int decrease, int memory,
				  int ignored)
{
	fixed log2_marks, heeded;

	company->alpha = averaged(company->alpha, share, FIXED_ONE >> MARK_GAIN_SHIFT);
	company->marks = averaged(company->marks, share, memory);
	if (!share)
		return FIXED_ONE;
	log2_marks = fixed_log2(company->marks) - (FIXED_SHIFT << FIXED_SHIFT);
	heeded = FIXED_ONE - fixed_exp2(fixed_product(ignored, log2_marks));
	return FIXED_ONE - fixed_product(fixed_product(decrease, company->alpha), heeded);
}

/*
 * Whether decreases to this window had no effect: the queue does not follow them. The window is that of the round
 * which has ended, because later decreases had no time to take effect.
 */
FIXED_POINT int in_vain(const struct company *company, const struct queues *queues, unsigned int packets,
			unsigned long long queue_ns, int patience)
{
	int follows = queue_ns * 20 < company->queue_before_ns * 19ull;

	return queues->least > queues->target && !follows &&
	       fixed_product(packets, patience) < company->window_below;
}

/* One of the rounds in which no loss matters is over. */
FIXED_POINT void pass_rest(struct company *company)
{
	company->rests -= company->rests > 0;
}

/* How the target adapts. */
struct adaptation {
	fixed own; /* queue up to which there are flows of its own only; -1 if that is not known */
	int rounds_in_vain; /* that may show no effect before the target rises; one that shows it takes one back */
	int patience;
	int patience_again; /* while the target is raised */
	int up;
	int undo;
	int down;
};

/* Raise the target above the queue, and undo the decreases: return the window. */
FIXED_POINT unsigned int give_way(const struct adaptation *adaptation, struct company *company,
				  const struct queues *queues, unsigned int packets)
{
	fixed above = fixed_log2(queues->mean) - fixed_log2(queues->target);

	company->stretch = least_of(company->stretch + most_of(above, 0) + adaptation->up, MOST_STRETCH);
	packets = most_of(packets, least_of(fixed_product(adaptation->undo, company->window_below), 0xffffffffu));
	company->window_below = packets;
	company->level = LEVEL_ONE;
	return packets;
}

/* Lower the target; raise it if the queue does not follow. Return the window, which was `before` in the round. */
FIXED_POINT unsigned int adapt_target(const struct adaptation *adaptation, struct company *company,
				      const struct queues *queues, unsigned int packets, unsigned int before,
				      unsigned long long queue_ns, unsigned char *rounds_in_vain)
{
	int patience = company->stretch ? adaptation->patience_again : adaptation->patience;

	company->level = queues->mean > queues->target ?
				 LEVEL_ONE + 1 :
				 fixed_quotient(queues->mean, queues->target) >> 1;
	company->stretch = most_of((fixed)company->stretch - adaptation->down, 0);
	if (queues->mean > adaptation->own && in_vain(company, queues, before, queue_ns, patience))
		*rounds_in_vain = least_of(*rounds_in_vain + 1, adaptation->rounds_in_vain + 1);
	else
		*rounds_in_vain -= *rounds_in_vain > 0;
	if (queues->mean <= adaptation->own)
		company->stretch = 0;
	else if (*rounds_in_vain > adaptation->rounds_in_vain)
		packets = give_way(adaptation, company, queues, packets);
	if (queues->mean <= queues->target)
		company->window_below = packets;
	company->queue_before_ns = queue_ns;
	return packets;
}

/* The shorter the queue was, the less a loss matters. Others may lose packets all the time. */
FIXED_POINT fixed weight_of_loss(struct company *company, int least, int rest)
{
	if (company->rests)
		return 0;
	if (company->stretch)
		company->rests = least_of((rest + FIXED_ONE - 1) >> FIXED_SHIFT, MOST_OF_A_BYTE);
	return most_of(least_of((fixed)company->level << 1, FIXED_ONE), least);
}

#endif
