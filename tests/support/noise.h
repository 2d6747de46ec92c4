/*
 * noise.h - models of any config, their weights noise: what two ways of computing agree on.
 */
#ifndef SC_TEST_NOISE_H
#define SC_TEST_NOISE_H

/* folder/config.json is that text, folder/model.safetensors all tensors of its graph in float32:
 * matrices that keep the size of what they multiply, vectors about 1. The same text and the same
 * bytes. Fails the test. */
void noise_model(const char *folder, const char *config);

#endif
