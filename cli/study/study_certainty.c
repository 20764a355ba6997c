#include "cli/study/study_certainty.h"

#include "base/text.h"
#include "cli/progress.h"
#include "cli/shard_choice.h"

#include <limits.h>
#include <string.h>

static status read_options(const cli_arguments *arguments, ana_uncertainty *uncertainty,
                           error_message *err)
{
    const char *equivalence = cli_value(arguments, "--equivalence");
    const char *seed = cli_value(arguments, "--seed");
    uncertainty->draws_are_given = uncertainty->draws_are_given || cli_has(arguments, "--draws");
    uncertainty->detail_is_given = uncertainty->detail_is_given || cli_has(arguments, "--detail");
    TRY(cli_int(arguments, "--draws", 0, ANA_DRAWS_MAX, uncertainty->draw_count,
                &uncertainty->draw_count, err));
    TRY(cli_int(arguments, "--detail", 1, ANA_DETAIL_MAX, uncertainty->detail_count,
                &uncertainty->detail_count, err));
    if (equivalence != NULL) {
        double percent = 0;
        TRY(text_parse_double(equivalence, "--equivalence", 0, 100 * ANA_EQUIVALENCE_MAX, &percent,
                              err));
        uncertainty->equivalence = percent / 100;
    }
    if (seed != NULL) {
        int64_t value = 0;
        TRY(text_parse_int64(seed, "--seed", 0, INT64_MAX, &value, err));
        uncertainty->seed = (uint64_t)value;
    }
    return ana_uncertainty_check(uncertainty, err);
}

status cli_certainty_open(const cli_arguments *arguments, const char *path, const char *text,
                          cli_certainty *certainty, error_message *err)
{
    *certainty = (cli_certainty){0};
    TRY(json_open_bytes(path, text, strlen(text), &certainty->document, err));
    const json_value section = json_member(json_root(certainty->document), "uncertainty");
    TRY(ana_uncertainty_read(section, &certainty->uncertainty, err));
    TRY(read_options(arguments, &certainty->uncertainty, err));
    if (certainty->uncertainty.draw_count > 0 || !cli_has(arguments, "--what-to-measure")) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "--what-to-measure needs draws, and there are 0");
}

status cli_certainty_find(ana_spread *spread, const ana_whatif *study, arena *memory,
                          cli_certainty *certainty, error_message *err)
{
    cli_progress progress;
    ana_uncertainty_limit(&certainty->uncertainty, study->iteration_count);
    certainty->is_drawn = certainty->uncertainty.draw_count > 0;
    if (!certainty->is_drawn) return STATUS_OK;
    cli_spread_watch(spread, "draws", &progress);
    const status result =
        ana_certainty_find(spread, study, &certainty->uncertainty, memory, &certainty->found, err);
    spread->watcher = (ana_watcher){0};
    return result;
}

void cli_certainty_close(cli_certainty *certainty)
{
    json_close(certainty->document);
    certainty->document = NULL;
}
