/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the transport `adaptive_target` decides at the end of a round trip and after a loss, as in the simulator
 * (emulator/packets/transports/adaptive_target.py, which says what the constants mean). It does not use the kernel,
 * so that a test can compile it for user space.
 *
 * Numbers are in 2^-16 unless their name tells a unit. Queues, paths and targets are in packets of the sender's line,
 * up to 2^24 of them; larger ones count as that, so that products of two numbers fit into 64 bits.
 */
#ifndef SYSGYM_ADAPTIVE_TARGET_H
#define SYSGYM_ADAPTIVE_TARGET_H

#include "fixed_point.h"

#define MARK_GAIN_SHIFT 4 /* g = 1/16 (RFC 8257, 4.2) */
#define SMALLEST_TARGETED (FIXED_ONE / 25)
#define MOST_QUEUE (1ll << (24 + FIXED_SHIFT))
#define MOST_STRETCH (10 * FIXED_ONE)
#define LEVEL_SHIFT 15
#define LEVEL_ONE (1 << LEVEL_SHIFT)
#define MOST_OF_A_BYTE 255

struct constants {
	int first_window;
	int target;
	int target_of_small;
	int target_of_path;
	int growth;
	int decrease;
	int most_decrease;
	int mark_decrease;
	int youth_growth;
	int youth_calm;
	int youth_packets;
	int start_pace;
	int pace;
	int patience;
	int patience_again;
	int stretch_up;
	int undo;
	int stretch_down;
	int stretch_calm;
	int marks_memory;
	int marks_ignored;
	int calm_rounds;
	int calm_growth;
	int loss_decrease;
	int loss_least;
	int loss_rest;
};

/* What a connection remembers between rounds. */
struct law {
	unsigned int packets; /* the window, with its fraction; may be less than one packet */
	unsigned int ssthresh;
	unsigned int growth; /* packets per round trip */
	unsigned int window_below; /* the window when the queue was last below the target */
	unsigned int queue_before_ns; /* of the last round */
	unsigned int stretch; /* log2 of the target over its least */
	unsigned short alpha; /* average share of marks */
	unsigned short marks; /* slow average */
	unsigned short level; /* queue of the last round over the target, in 2^-15; more than one is all alike */
	unsigned char rests; /* rounds in which no loss matters */
	unsigned char calm_for; /* rounds without a queue */
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

/* Target of the queue where there are no other laws. */
FIXED_POINT fixed least_target(const struct constants *constants, unsigned int packets, fixed path)
{
	fixed window = fixed_log2(most_of(packets, SMALLEST_TARGETED)) - (FIXED_SHIFT << FIXED_SHIFT);

	return constants->target + fixed_product(constants->target_of_small, fixed_exp2(-(window >> 1))) +
	       fixed_product(constants->target_of_path, path);
}

FIXED_POINT fixed stretched(fixed target, unsigned int stretch)
{
	target = least_of(target, MOST_QUEUE);
	return least_of(target * (fixed_exp2(stretch) >> 4) >> (FIXED_SHIFT - 4), MOST_QUEUE);
}

FIXED_POINT struct queues look(const struct constants *constants, const struct law *law, const struct seen *seen)
{
	struct queues queues = {
		.mean = packets_in(delay_ns(seen->mean_rtt_ns, seen->base_rtt_ns), seen->line_ns),
		.least = packets_in(delay_ns(seen->least_rtt_ns, seen->base_rtt_ns), seen->line_ns),
		.path = packets_in(delay_ns(seen->base_rtt_ns, 0), seen->line_ns),
	};

	queues.target = stretched(least_target(constants, law->packets, queues.path), law->stretch);
	return queues;
}

/* Halves with every youth_packets. */
FIXED_POINT fixed youth_of(const struct constants *constants, unsigned int delivered_packets)
{
	return fixed_exp2(-fixed_quotient((unsigned long long)delivered_packets << FIXED_SHIFT,
					  constants->youth_packets));
}

/* An average never reaches one: it moves towards larger values by the next lower step. */
FIXED_POINT unsigned short averaged(unsigned short average, unsigned int share, int gain)
{
	return average + fixed_product(gain, (fixed)share - average);
}

/* By what marks multiply the window. */
FIXED_POINT fixed factor_of_marks(const struct constants *constants, struct law *law, unsigned int share)
{
	fixed log2_marks, heeded;

	law->alpha = averaged(law->alpha, share, FIXED_ONE >> MARK_GAIN_SHIFT);
	law->marks = averaged(law->marks, share, constants->marks_memory);
	if (!share)
		return FIXED_ONE;
	log2_marks = fixed_log2(law->marks) - (FIXED_SHIFT << FIXED_SHIFT);
	heeded = FIXED_ONE - fixed_exp2(fixed_product(constants->marks_ignored, log2_marks));
	return FIXED_ONE - fixed_product(fixed_product(constants->mark_decrease, law->alpha), heeded);
}

/* By what a queue above the target multiplies the window. */
FIXED_POINT fixed factor_of_queue(const struct constants *constants, const struct law *law,
				  const struct queues *queues, fixed youth)
{
	fixed excess = fixed_quotient(queues->mean - queues->target, queues->mean + queues->path);
	fixed decrease = fixed_product(constants->decrease, excess);

	decrease = fixed_product(decrease, FIXED_ONE - fixed_product(constants->youth_calm, youth));
	decrease = fixed_product(decrease, fixed_exp2(-fixed_product(constants->stretch_calm, law->stretch)));
	return FIXED_ONE - least_of(decrease, constants->most_decrease);
}

/* The growth of the next round. */
FIXED_POINT void set_growth(const struct constants *constants, struct law *law, const struct queues *queues,
			    fixed youth)
{
	law->growth = fixed_product(constants->growth, FIXED_ONE + fixed_product(constants->youth_growth, youth));
	if (queues->mean >= queues->target >> 3)
		law->calm_for = 0;
	else if (law->calm_for < MOST_OF_A_BYTE)
		law->calm_for += 1;
	if ((fixed)law->calm_for << FIXED_SHIFT > constants->calm_rounds)
		law->growth = most_of(law->growth, fixed_product(constants->calm_growth, law->packets));
}

/*
 * Whether decreases to this window had no effect: the queue does not follow them. The window is that of the round
 * which has ended, because later decreases had no time to take effect.
 */
FIXED_POINT int in_vain(const struct law *law, const struct queues *queues, unsigned int packets,
			unsigned long long queue_ns, int patience)
{
	int follows = queue_ns * 20 < law->queue_before_ns * 19ull;

	return queues->least > queues->target && !follows && fixed_product(packets, patience) < law->window_below;
}

/* Raise the target above the queue, and undo the decreases. */
FIXED_POINT void give_way(const struct constants *constants, struct law *law, const struct queues *queues)
{
	fixed above = fixed_log2(queues->mean) - fixed_log2(queues->target);

	law->stretch = least_of(law->stretch + most_of(above, 0) + constants->stretch_up, MOST_STRETCH);
	law->packets = most_of(law->packets,
			       least_of(fixed_product(constants->undo, law->window_below), 0xffffffffu));
	law->window_below = law->packets;
	law->level = LEVEL_ONE;
}

FIXED_POINT void adapt_target(const struct constants *constants, struct law *law, const struct queues *queues,
			      unsigned int packets, unsigned long long queue_ns)
{
	int patience = law->stretch ? constants->patience_again : constants->patience;

	law->stretch = most_of((fixed)law->stretch - constants->stretch_down, 0);
	if (in_vain(law, queues, packets, queue_ns, patience))
		give_way(constants, law, queues);
	if (queues->mean <= queues->target)
		law->window_below = law->packets;
	law->queue_before_ns = queue_ns;
}

/* Compare the queue with the target; set the window, and its growth in the next round. */
FIXED_POINT void law_end_round(const struct constants *constants, struct law *law, const struct seen *seen)
{
	struct queues queues = look(constants, law, seen);
	fixed youth = youth_of(constants, seen->delivered_packets);
	fixed factor = factor_of_marks(constants, law, seen->marked_share);
	unsigned int packets = law->packets;
	int is_above = queues.mean > queues.target;

	if (is_above)
		factor = least_of(factor, factor_of_queue(constants, law, &queues, youth));
	if (!seen->lost)
		law->packets = fixed_product(law->packets, factor);
	if (is_above || factor < FIXED_ONE)
		law->ssthresh = least_of(law->ssthresh, law->packets);
	law->level = is_above ? LEVEL_ONE + 1 : fixed_quotient(queues.mean, queues.target) >> 1;
	law->rests -= law->rests > 0;
	set_growth(constants, law, &queues, youth);
	adapt_target(constants, law, &queues, packets, delay_ns(seen->mean_rtt_ns, seen->base_rtt_ns));
}

/* The shorter the queue was, the less a loss matters. */
FIXED_POINT void law_lose(const struct constants *constants, struct law *law)
{
	fixed weight = most_of(least_of((fixed)law->level << 1, FIXED_ONE), constants->loss_least);

	if (law->rests)
		weight = 0;
	else if (law->stretch) /* others may lose packets all the time */
		law->rests = least_of((constants->loss_rest + FIXED_ONE - 1) >> FIXED_SHIFT, MOST_OF_A_BYTE);
	law->packets = fixed_product(law->packets, FIXED_ONE - fixed_product(constants->loss_decrease, weight));
	law->ssthresh = most_of(law->packets, FIXED_ONE);
}

/* Windows per round trip. */
FIXED_POINT unsigned int law_pace(const struct constants *constants, const struct law *law)
{
	return law->packets < law->ssthresh ? constants->start_pace : constants->pace;
}

FIXED_POINT unsigned int law_growth(const struct law *law)
{
	return law->level <= LEVEL_ONE ? law->growth : 0;
}

FIXED_POINT void law_start(struct law *law, unsigned int packets)
{
	law->packets = law->window_below = packets;
	law->ssthresh = ~0u;
	law->growth = FIXED_ONE;
	law->level = LEVEL_ONE; /* unknown */
	law->queue_before_ns = law->stretch = 0;
	law->alpha = law->marks = 0;
	law->rests = law->calm_for = 0;
}

#endif
