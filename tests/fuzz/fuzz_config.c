/// Any bytes as a model's config.json: refused with a message, or read into a model whose costs can
/// be computed and are not negative.
#include "models/cost/cost_model.h"
#include "tests/fuzz/fuzz.h"

#include <assert.h>

static void check_costs(const model_config *config, arena *memory)
{
    model_hardware hardware;
    model_costs costs;
    error_message err = {0};
    const model_training training = {.microbatch_size = 3};
    assert(model_hardware_open("a100-sxm-80gb", memory, &hardware, &err) == STATUS_OK);
    if (model_costs_build(config, &hardware, &training, "input", "preset", memory, &costs, &err) !=
        STATUS_OK) {
        assert(err.message[0] != '\0');
        return;
    }
    for (int layer = 0; layer < costs.layers.layer_count; layer++) {
        assert(costs.layers.forward_ns[layer] >= 0 && costs.layers.parameters[layer] > 0);
        assert(costs.layers.activation_bytes[layer] > 0 && costs.layers.gradient_bytes[layer] > 0);
    }
    assert(costs.active_parameters <= costs.total_parameters);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    json_document *document = NULL;
    model_config config;
    error_message err = {0};
    arena *memory = arena_create(4096);
    assert(memory != NULL);
    if (json_open_bytes("input", (const char *)bytes, count, &document, &err) == STATUS_OK) {
        if (model_config_read(document, memory, &config, &err) == STATUS_OK) {
            check_costs(&config, memory);
        } else {
            assert(err.message[0] != '\0');
        }
        json_close(document);
    }
    arena_destroy(memory);
    return 0;
}
