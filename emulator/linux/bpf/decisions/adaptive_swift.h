/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What the transport `adaptive_swift` decides at an ACK, at the end of a round trip and after a loss, as in the
 * simulator (emulator/packets/transports/searched/adaptive_swift.py, which says what the constants mean). It does
 * not use the kernel, so that a test can compile it for user space. Units are those of other_laws.h.
 */
#ifndef SYSGYM_ADAPTIVE_SWIFT_H
#define SYSGYM_ADAPTIVE_SWIFT_H

#include "other_laws.h"

#define OWN_WINDOW FIXED_ONE
#define ROUNDS_IN_VAIN 8
#define LEAST_GAIN (FIXED_ONE / 64) /* a smaller one is none */
#define GROWTH_OF_PATH_SHIFT 9 /* additive growth, over the packets on the empty path */
#define LONG_PATH (200 * FIXED_ONE) /* packets of the path that count in a decrease at most */
#define TOGETHER 2 /* where the window is smaller; with segmentation offload they leave together, too */
#define MARKS_IGNORED (4 * FIXED_ONE)
#define LOSS_REST (16 * FIXED_ONE)
#define MARKS_HIDDEN 20 /* inverse of the slow average above which marks are shown */
#define MARKS_SHOWN (FIXED_ONE / MARKS_HIDDEN)
#define PATIENCE_AT_THRESHOLD (6 * FIXED_ONE)
#define ROUNDS_AT_THRESHOLD 24
#define AT_THRESHOLD_TENTHS 12
#define ABOVE_THRESHOLD_TENTHS 15
#define MARKED_GROWTH FIXED_ONE
#define MARKED_DECREASE_SHIFT 1
#define MOST_MARKED_QUEUE ((1 << 13) - 1) /* half packets */

struct constants {
	int first_window;
	int target;
	int target_of_small;
	int target_of_noise;
	int large_window;
	int growth;
	int calm_growth;
	int growth_beside;
	int start_growth;
	int decrease;
	int most_decrease;
	int pace;
	int patience;
	int patience_again;
	int stretch_up;
	int stretch_down;
	int stretch_calm;
	int mark_decrease;
	int marks_memory;
	int loss_decrease;
	int loss_least;
};

/*
 * What a connection remembers between ACKs; `company.counted` is the number of rounds in vain, and `counted_apart` that
 * of those up to the threshold of marks.
 */
struct law {
	unsigned int packets; /* the window, with its fraction; may be less than one packet */
	unsigned int gain : 18; /* growth in a round trip, over the geometric mean of window and path */
	unsigned int marked_queue : 13; /* the shortest that was marked, in half packets; 0 if none was */
	unsigned int by_marks : 1; /* marks rule the window instead of the delay */
	unsigned int decreased_at_us;
	struct company company;
};

/* What an ACK tells. */
struct told {
	unsigned long long rtt_ns;
	unsigned long long base_rtt_ns; /* of an empty path */
	unsigned long long rtt_change_ns; /* average of changes from a sample to the next */
	unsigned int present_rtt_us; /* smoothed; at least that of the empty path */
	unsigned int now_us;
	unsigned int line_ns; /* time of a packet on the sender's line */
	unsigned int marked;
};

/* A window to the power of -1/2. */
FIXED_POINT fixed share_of_small(fixed packets)
{
	fixed window = fixed_log2(most_of(packets, SMALLEST_TARGETED)) - (FIXED_SHIFT << FIXED_SHIFT);

	return fixed_exp2(-(window >> 1));
}

FIXED_POINT fixed geometric_mean(fixed one, fixed other)
{
	fixed doubled = fixed_log2(one) + fixed_log2(other);

	return fixed_exp2((doubled >> 1) - (FIXED_SHIFT << FIXED_SHIFT));
}

/* Target of a window where there are no other laws and no noise. */
FIXED_POINT fixed target_at(const struct constants *constants, unsigned int packets)
{
	fixed share = share_of_small(packets) - share_of_small(constants->large_window);

	return constants->target + fixed_product(constants->target_of_small, most_of(share, 0));
}

/* The addition for delays that vary: the less, the more packets are marked. The path is in packets. */
FIXED_POINT fixed target_of_noise(const struct constants *constants, const struct law *law,
				  unsigned long long rtt_change_ns, unsigned int line_ns, fixed path)
{
	fixed noise = fixed_product(constants->target_of_noise, packets_of_path(rtt_change_ns, line_ns));
	fixed unmarked = most_of(FIXED_ONE - (fixed)MARKS_HIDDEN * law->company.marks, 0);

	return fixed_product(least_of(noise, path), unmarked);
}

/* Growth, in packets a round trip: another one beside other laws. */
FIXED_POINT fixed present_growth(const struct constants *constants, const struct law *law, fixed path)
{
	fixed additive = constants->growth + (path >> GROWTH_OF_PATH_SHIFT);

	if (law->by_marks)
		return MARKED_GROWTH;
	if (law->company.stretch)
		return constants->growth_beside;
	return most_of(additive, fixed_product(law->gain, geometric_mean(law->packets, most_of(law->packets, path))));
}

/* The window after an ACK that tells of a queue below the target. */
FIXED_POINT unsigned int law_grow(const struct constants *constants, const struct law *law, const struct told *told,
				  unsigned int acked)
{
	fixed path = packets_of_path(told->base_rtt_ns, told->line_ns);
	fixed share = least_of(fixed_quotient((unsigned long long)acked << FIXED_SHIFT,
					      most_of(law->packets, FIXED_ONE)), FIXED_ONE);
	fixed packets = law->packets + fixed_product(present_growth(constants, law, path), share);

	return least_of(packets, 0xffffffffu);
}

/* Multiply the window, and halve its gain. */
FIXED_POINT void decrease_to(struct law *law, fixed factor, unsigned int now_us)
{
	law->decreased_at_us = now_us;
	law->packets = fixed_product(law->packets, factor);
	law->gain = law->gain / 2 >= LEAST_GAIN ? law->gain / 2 : 0;
}

/* By what a queue above the target multiplies the window. */
FIXED_POINT fixed factor_of_queue(const struct constants *constants, const struct law *law, fixed queue,
				  fixed target, fixed path)
{
	fixed decrease = fixed_product(constants->decrease, fixed_quotient(queue - target, queue + path));

	decrease = fixed_product(decrease,
				 fixed_exp2(-fixed_product(constants->stretch_calm, law->company.stretch)));
	return FIXED_ONE - least_of(decrease, constants->most_decrease);
}

FIXED_POINT fixed present_queue(const struct told *told)
{
	return packets_in(delay_ns(told->rtt_ns, told->base_rtt_ns), told->line_ns);
}

/* Keep the shortest queue that was marked: the threshold of marks, where there is one, up to what fits. */
FIXED_POINT void note_marked_queue(struct law *law, const struct told *told)
{
	unsigned int queue = least_of(present_queue(told) >> (FIXED_SHIFT - 1), MOST_MARKED_QUEUE);

	if (queue && (!law->marked_queue || queue < law->marked_queue))
		law->marked_queue = queue;
}

FIXED_POINT int may_decrease(const struct law *law, const struct told *told)
{
	return told->now_us - law->decreased_at_us >= told->present_rtt_us;
}

/* Without a mark, return 1: the window may grow. With one, decrease once a round trip (RFC 8257, 3.3). */
FIXED_POINT int follow_marks(struct law *law, const struct told *told)
{
	if (!told->marked)
		return 1;
	if (may_decrease(law, told))
		decrease_to(law, FIXED_ONE - (law->company.alpha >> MARKED_DECREASE_SHIFT), told->now_us);
	return 0;
}

/* Compare the queue with the target. Below it, return 1: the window may grow. Above it, decrease once a round trip. */
FIXED_POINT int follow_delay(const struct constants *constants, struct law *law, const struct told *told)
{
	fixed queue = present_queue(told);
	fixed target = stretched(target_at(constants, law->packets), law->company.stretch);
	fixed path;

	if (queue < target)
		return 1; /* most ACKs need no division for the noise */
	path = packets_of_path(told->base_rtt_ns, told->line_ns);
	target += target_of_noise(constants, law, told->rtt_change_ns, told->line_ns, path);
	if (queue < target)
		return 1;
	if (may_decrease(law, told))
		decrease_to(law, factor_of_queue(constants, law, queue, target, least_of(path, LONG_PATH)),
			    told->now_us);
	return 0;
}

/* Answer to an ACK: decrease, or return 1 where the window may grow. An ACK without a round trip tells of no queue. */
FIXED_POINT int law_follow(const struct constants *constants, struct law *law, const struct told *told)
{
	if (told->rtt_ns && told->marked)
		note_marked_queue(law, told);
	if (law->by_marks)
		return follow_marks(law, told);
	return !told->rtt_ns || follow_delay(constants, law, told);
}

/* Double the gain, up to its largest after the start, if the least queue was short, to a target without noise. */
FIXED_POINT void note_calm(const struct constants *constants, struct law *law, fixed least, fixed target)
{
	if (4 * least < target)
		law->gain = most_of(law->gain, least_of(most_of(2ll * law->gain, LEAST_GAIN), constants->calm_growth));
}

/* Whether a queue, in packets, is at least so many tenths of the shortest marked one. */
FIXED_POINT int has_tenths_of_marked(const struct law *law, fixed queue, int tenths)
{
	return 20 * queue >= (fixed)tenths * law->marked_queue << FIXED_SHIFT;
}

/*
 * Adapt the target to the company of the round; beside other laws multiply the window by marks' factor. Up to a
 * little above the threshold of marks, where decreases have no effect, marks rule the window from now on.
 */
FIXED_POINT void follow_target(const struct constants *constants, struct law *law, const struct seen *seen,
			       struct queues *queues, fixed factor)
{
	fixed target = stretched(target_at(constants, law->packets), law->company.stretch);
	fixed noise = target_of_noise(constants, law, seen->rtt_change_ns, seen->line_ns, queues->path);
	struct adaptation adaptation = {
		.own = target_at(constants, OWN_WINDOW) + noise,
		.rounds_in_vain = ROUNDS_IN_VAIN,
		.patience = constants->patience,
		.patience_again = constants->patience_again,
		.up = constants->stretch_up,
		.undo = FIXED_ONE,
		.down = constants->stretch_down,
	};
	struct company *company = &law->company;
	unsigned char in_vain = company->counted;
	int at_threshold = !company->stretch && company->marks > MARKS_SHOWN &&
			   !has_tenths_of_marked(law, queues->mean, AT_THRESHOLD_TENTHS);

	queues->target = target + noise;
	note_calm(constants, law, queues->least, target);
	if (at_threshold) {
		in_vain = company->counted_apart;
		adaptation.own = -1;
		adaptation.patience = PATIENCE_AT_THRESHOLD;
		adaptation.rounds_in_vain = ROUNDS_AT_THRESHOLD;
	}
	law->packets = adapt_target(&adaptation, company, queues, law->packets, law->packets,
				    delay_ns(seen->mean_rtt_ns, seen->base_rtt_ns), &in_vain);
	if (at_threshold)
		company->counted_apart = in_vain;
	else
		company->counted = in_vain;
	if (at_threshold && company->stretch) {
		company->stretch = 0;
		law->by_marks = 1;
	}
	if (company->stretch && !seen->lost)
		law->packets = fixed_product(law->packets, factor);
}

/* Let the delay rule the window, until other decreases are in vain. */
FIXED_POINT void follow_delay_again(struct law *law)
{
	law->by_marks = 0;
	law->company.counted = law->company.counted_apart = 0;
}

/* Let the delay rule the window again if the queue is far above the threshold of marks. */
FIXED_POINT void end_marked_round(struct law *law, const struct seen *seen, const struct queues *queues)
{
	struct company *company = &law->company;

	company->queue_before_ns = delay_ns(seen->mean_rtt_ns, seen->base_rtt_ns);
	company->level = LEVEL_ONE;
	company->window_below = law->packets;
	if (has_tenths_of_marked(law, queues->mean, ABOVE_THRESHOLD_TENTHS))
		follow_delay_again(law);
}

/* Average the round's marks, and note by what the window is ruled in the next one. */
FIXED_POINT void law_end_round(const struct constants *constants, struct law *law, const struct seen *seen)
{
	struct queues queues = queues_of(seen);
	fixed factor = factor_of_marks(&law->company, seen->marked_share, constants->mark_decrease,
				       constants->marks_memory, MARKS_IGNORED);

	if (law->by_marks && !seen->just_drained)
		end_marked_round(law, seen, &queues);
	else if (!seen->just_drained)
		follow_target(constants, law, seen, &queues, factor);
	pass_rest(&law->company);
}

FIXED_POINT void law_lose(const struct constants *constants, struct law *law, unsigned int now_us)
{
	fixed weight = weight_of_loss(&law->company, constants->loss_least, LOSS_REST);

	decrease_to(law, FIXED_ONE - fixed_product(constants->loss_decrease, weight), now_us);
}

/* After a time-out the window is one packet (RFC 5681, 3.1), and grows as at first. */
FIXED_POINT void law_time_out(const struct constants *constants, struct law *law)
{
	law->packets = FIXED_ONE;
	if (law->by_marks)
		follow_delay_again(law);
	law->gain = constants->start_growth;
}

/* A threshold between fast growth and slow. There is none: to the kernel the window is at it. */
FIXED_POINT unsigned int law_threshold(const struct law *law)
{
	return law->packets;
}

/* Windows per round trip; a gain of one has an eighth of the line's rate at least. The path is in packets. */
FIXED_POINT unsigned int law_pace(const struct constants *constants, const struct law *law, fixed path)
{
	fixed least = fixed_quotient(fixed_product(law->gain, path) >> 3, most_of(law->packets, FIXED_ONE));

	return least_of(most_of(constants->pace + (law->gain >> 1), least), 0xffffffffu);
}

FIXED_POINT void law_start(const struct constants *constants, struct law *law, unsigned int packets,
			   unsigned int now_us)
{
	law->packets = packets;
	law->marked_queue = law->by_marks = 0;
	law->gain = constants ? constants->start_growth : FIXED_ONE;
	law->decreased_at_us = now_us - (1u << 31); /* long ago */
	company_start(&law->company, packets);
}

#endif
