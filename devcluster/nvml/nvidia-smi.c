/* A mock of nvidia-smi: prints the driver's version and the devices, or why it cannot.
 *
 * It loads the library as programs in containers do, by its name: it works where the plugin injected that. */
#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT 96

static void *library;

/* Call a function of the library. */
#define CALL(function, ...) ((__typeof__(function) *)dlsym(library, #function))(__VA_ARGS__)

static int print_devices(void)
{
    char text[TEXT];
    unsigned int count = 0;
    nvmlDevice_t device;

    if (CALL(nvmlSystemGetDriverVersion, text, sizeof text) != NVML_SUCCESS)
        return 1;
    printf("Driver Version: %s\n", text);
    CALL(nvmlDeviceGetCount_v2, &count);
    for (unsigned int index = 0; index < count; index++) {
        CALL(nvmlDeviceGetHandleByIndex_v2, index, &device);
        CALL(nvmlDeviceGetUUID, device, text, sizeof text);
        printf("GPU %u: %s\n", index, text);
    }
    return 0;
}

int main(int count, char **arguments)
{
    nvmlReturn_t result;

    library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (library == NULL) {
        printf("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n");
        return 12;
    }
    if (count > 1 && strcmp(arguments[1], "--version") == 0) {
        printf("NVIDIA-SMI version  : a mock\n");
        return 0;
    }
    result = CALL(nvmlInit_v2);
    if (result != NVML_SUCCESS) {
        printf("Failed to initialize NVML: %s\n", CALL(nvmlErrorString, result));
        return (int)result;
    }
    return print_devices();
}
