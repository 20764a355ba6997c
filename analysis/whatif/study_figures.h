/// The pictures of a study's page. Only for study_report.c.
#pragma once

#include "analysis/whatif/study_report.h"

/// The point with this number in the answer; missing if there is none. Looks through them all.
json_value ana_study_point(json_value answer, int64_t number);

/// "17: stages 8, schedule zb-h1".
void ana_study_label(json_value answer, json_value point, text_buffer *out);

/// Time of the whole training in hours or, where tokens are not known, of an iteration in ms.
double ana_study_time(json_value point, bool *is_hours);

/// The best points with their error bars; nothing if none are drawn.
status ana_study_figure_bars(json_value answer, text_buffer *svg, error_message *err);

/// Every point: time against cost, GPU-hours or memory, whichever tells them apart.
status ana_study_figure_pareto(json_value answer, text_buffer *svg, error_message *err);

/// What the idle time of the best points is there for.
status ana_study_figure_idle(json_value answer, text_buffer *svg, error_message *err);
