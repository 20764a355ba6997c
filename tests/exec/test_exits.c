/// Exits after a block: who leaves by which measure, what these learn, against a second computation
/// in double precision and finite differences of its loss.
#include "tests/exec/block_fixture.h"

enum { CLASSES = 11 };

/// At which some of the rows leave.
static const double thresholds[EXEC_EXIT_MEASURE_COUNT] = {0.5, 0.05, 0.14, 0.5};

static exec_model model_with(exec_exit_measure measure)
{
    exec_model model = model_of(EXEC_EARLY_EXIT);
    model.vocabulary = CLASSES;
    model.early_exit = (exec_early_exit_options){
        .measure = (int)measure, .threshold = thresholds[measure], .target_cosine = 0.6};
    return model;
}

/// Opens the second of three blocks, which a third of the rows do not reach.
static void open_exit(block_fixture *fixture, const exec_model *model)
{
    open_block(fixture, model, 1);
    for (int row = 0; row < ROWS; row++) {
        fixture->live[row] = row % 3 != 1;
    }
}

/// Softmax of the block's own head for the state after the block.
static void predict(const block_fixture *fixture, int row, double probability[CLASSES])
{
    const float *state = fixture->output + (ptrdiff_t)row * WIDTH;
    const float *weight = tensor_of(fixture->layer, "exit norm weight");
    const bool is_rms = fixture->model.has_rms_norm;
    const float *bias = is_rms ? NULL : tensor_of(fixture->layer, "exit norm bias");
    const float *matrix = tensor_of(fixture->layer, "exit logits");
    double mean = 0;
    double square = 0;
    double sum = 0;
    for (int at = 0; at < WIDTH && !is_rms; at++) {
        mean += (double)state[at] / WIDTH;
    }
    for (int at = 0; at < WIDTH; at++) {
        square += ((double)state[at] - mean) * ((double)state[at] - mean) / WIDTH;
    }
    for (int class = 0; class < CLASSES; class ++) {
        double logit = 0;
        for (int at = 0; at < WIDTH; at++) {
            const double normal = ((double)state[at] - mean) / sqrt(square + 1e-5);
            const double shifted = normal * (double)weight[at] + (is_rms ? 0 : (double)bias[at]);
            logit += shifted * (double)matrix[at * CLASSES + class];
        }
        probability[class] = exp(logit);
        sum += probability[class];
    }
    for (int class = 0; class < CLASSES; class ++) {
        probability[class] /= sum;
    }
}

/// Of layer 2 of 3: its loss counts two thirds, in the mean over all rows.
static double loss_of_head(const block_fixture *fixture)
{
    double loss = 0;
    for (int row = 0; row < ROWS; row++) {
        double probability[CLASSES];
        if (fixture->live[row] == 0) continue;
        predict(fixture, row, probability);
        loss -= log(probability[fixture->target[row]]);
    }
    return loss * 2 / 3 / ROWS;
}

static double score_of(const block_fixture *fixture, int row)
{
    const float *vector = tensor_of(fixture->layer, "exit vector");
    double score = (double)*tensor_of(fixture->layer, "exit bias");
    for (int at = 0; at < WIDTH; at++) {
        score += (double)vector[at] * (double)fixture->output[row * WIDTH + at];
    }
    return score;
}

/// Of the states on both sides of the block.
static double cosine_of(const block_fixture *fixture, int row)
{
    double product = 0;
    double before = 0;
    double after = 0;
    for (int at = row * WIDTH; at < (row + 1) * WIDTH; at++) {
        product += (double)fixture->input[at] * (double)fixture->output[at];
        before += (double)fixture->input[at] * (double)fixture->input[at];
        after += (double)fixture->output[at] * (double)fixture->output[at];
    }
    return product / sqrt(before * after);
}

static bool is_saturated(const block_fixture *fixture, int row)
{
    return cosine_of(fixture, row) > fixture->model.early_exit.target_cosine;
}

static double loss_of_classifier(const block_fixture *fixture)
{
    double loss = 0;
    for (int row = 0; row < ROWS; row++) {
        if (fixture->live[row] == 0) continue;
        const double score = score_of(fixture, row);
        loss += log(1 + exp(is_saturated(fixture, row) ? -score : score));
    }
    return loss / ROWS;
}

TEST(a_head_of_its_own_has_the_gradients_of_finite_differences)
{
    for (int is_llama = 0; is_llama < 2; is_llama++) {
        block_fixture fixture;
        exec_model model = model_with(EXEC_EXIT_SOFTMAX);
        model.has_rms_norm = model.is_gated = is_llama != 0;
        open_exit(&fixture, &model);
        fixture.own_loss = loss_of_head;

        check_gradients(&fixture);
        close_block(&fixture);

        // The head's loss alone, which is small beside the other.
        open_exit(&fixture, &model);
        fixture.own_loss = loss_of_head;
        fixture.rounding = 3e-5;
        memset(fixture.slope, 0, sizeof fixture.slope);
        check_gradients(&fixture);
        close_block(&fixture);
    }
}

/// How sure a measure is of a row.
static double confidence_of(const block_fixture *fixture, int row)
{
    const int measure = fixture->model.early_exit.measure;
    if (measure == EXEC_EXIT_SATURATION) return cosine_of(fixture, row);
    if (measure == EXEC_EXIT_CLASSIFIER) return 1 / (1 + exp(-score_of(fixture, row)));
    double probability[CLASSES];
    double largest = 0;
    double second = 0;
    predict(fixture, row, probability);
    for (int class = 0; class < CLASSES; class ++) {
        second = fmax(second, fmin(largest, probability[class]));
        largest = fmax(largest, probability[class]);
    }
    return measure == EXEC_EXIT_SOFTMAX ? largest - second : largest;
}

TEST(rows_leave_where_the_measure_is_above_its_threshold)
{
    for (int measure = 0; measure < EXEC_EXIT_MEASURE_COUNT; measure++) {
        block_fixture fixture;
        const exec_model model = model_with((exec_exit_measure)measure);
        open_exit(&fixture, &model);

        run_forward(&fixture);

        int left = 0;
        for (int row = 0; row < ROWS; row++) {
            const bool is_sure = confidence_of(&fixture, row) > thresholds[measure];
            const bool stays = fixture.live[row] != 0 && !is_sure;
            assert_int_equal(fixture.live_after[row], stays);
            left += fixture.live[row] != 0 && !stays;
        }
        assert_in_range(left, 2, ROWS * 2 / 3 - 2);
        close_block(&fixture);
    }
}

TEST(the_classifier_has_gradients_that_end_with_it)
{
    static float input_gradient[2][VALUES];
    block_fixture classifier;
    block_fixture plain;
    const exec_model models[] = {model_with(EXEC_EXIT_CLASSIFIER),
                                 model_with(EXEC_EXIT_SATURATION)};
    open_exit(&classifier, &models[0]);
    open_exit(&plain, &models[1]);
    copy_parameters(classifier.layer, plain.layer);
    classifier.own_loss = loss_of_classifier;
    classifier.rounding = 3e-5;
    int saturated = 0;

    run_passes(&classifier, input_gradient[0]);
    run_passes(&plain, input_gradient[1]);

    for (int row = 0; row < ROWS; row++) {
        saturated += classifier.live[row] != 0 && is_saturated(&classifier, row);
    }
    assert_in_range(saturated, 2, ROWS * 2 / 3 - 2);
    assert_memory_equal(input_gradient[0], input_gradient[1], sizeof input_gradient[0]);
    assert_memory_equal(classifier.layer->gradient, plain.layer->gradient,
                        plain.layer->parameter_count * sizeof(float));
    memset(classifier.slope, 0, sizeof classifier.slope);
    float *vector = tensor_of(classifier.layer, "exit vector");
    float *bias = tensor_of(classifier.layer, "exit bias");
    check_gradient(&classifier, "exit vector", vector, WIDTH,
                   classifier.layer->gradient + (vector - classifier.layer->master));
    check_gradient(&classifier, "exit bias", bias, 1,
                   classifier.layer->gradient + (bias - classifier.layer->master));
    close_block(&plain);
    close_block(&classifier);
}

static size_t parameters_of(const exec_model *model, int block)
{
    block_fixture fixture;
    open_block(&fixture, model, block);
    const size_t count = fixture.layer->parameter_count;
    close_block(&fixture);
    return count;
}

TEST(blocks_with_an_exit_have_its_parameters)
{
    const size_t added[EXEC_EXIT_MEASURE_COUNT] = {0, 2 * WIDTH + WIDTH * CLASSES,
                                                   2 * WIDTH + WIDTH * CLASSES, WIDTH + 1};
    exec_model plain = model_with(EXEC_EXIT_SATURATION);
    plain.mechanism = EXEC_DENSE;
    const size_t dense = parameters_of(&plain, 0);
    for (int measure = 0; measure < EXEC_EXIT_MEASURE_COUNT; measure++) {
        exec_model model = model_with((exec_exit_measure)measure);
        model.early_exit.first_exit = 1;
        assert_int_equal(parameters_of(&model, 0), dense); // in front of the first exit
        assert_int_equal(parameters_of(&model, 1), dense + added[measure]);
        assert_int_equal(parameters_of(&model, 2), dense); // the last block
    }
}

TEST(memory_follows_the_rows_that_reach_the_exit)
{
    for (int measure = 0; measure < EXEC_EXIT_MEASURE_COUNT; measure++) {
        int64_t activation_bytes[2];
        int64_t gradient_bytes[2];
        for (int half = 0; half < 2; half++) {
            float gradient[VALUES];
            block_fixture fixture;
            const exec_model model = model_with((exec_exit_measure)measure);
            open_block(&fixture, &model, 1);
            for (int row = 0; half == 1 && row < ROWS; row++) {
                fixture.live[row] = row % 2 == 0;
            }
            run_passes(&fixture, gradient);
            activation_bytes[half] = fixture.slot->activation_bytes;
            gradient_bytes[half] = fixture.slot->gradient_bytes;
            assert_int_equal(exec_buffers_taken_bytes(fixture.buffers), 0);
            close_block(&fixture);
        }
        // Numbers of rows, and sums over them, which do not shrink, are a small part.
        assert_close((double)activation_bytes[1], 0.5 * (double)activation_bytes[0], 0.1);
        assert_close((double)gradient_bytes[1], 0.5 * (double)gradient_bytes[0], 0.1);
    }
}

TEST(an_exit_that_nobody_reaches_does_nothing)
{
    for (int measure = 0; measure < EXEC_EXIT_MEASURE_COUNT; measure++) {
        float gradient[VALUES];
        block_fixture fixture;
        const exec_model model = model_with((exec_exit_measure)measure);
        open_block(&fixture, &model, 1);
        memset(fixture.live, 0, sizeof fixture.live);

        run_passes(&fixture, gradient);

        assert_memory_equal(fixture.output, fixture.input, sizeof fixture.output);
        assert_memory_equal(gradient, fixture.slope, sizeof gradient);
        assert_true(exec_layer_square_norm(fixture.layer) == 0);
        close_block(&fixture);
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
