/* The table of other makers' formats; see the header. */
#include "core/host/foreign_format.h"

#include "core/base/str.h"

#include <string.h>

/* clang-format off */
static const st_foreign_format formats[] = {
    {"pt2", NULL, 0, "a program of torch.export",
     "write it as ONNX in Python: torch.onnx.export(torch.export.load('m.pt2'), f='m.onnx', dynamo=True)"},
    {"pt,pth,ckpt", NULL, 0, "a pickle of PyTorch",
     "load the module in Python and write it as ONNX: torch.onnx.export(module.eval(), args, 'm.onnx', dynamo=True)"},
    {"safetensors", NULL, 0, "a file of weights without a graph",
     "load them into their model in Python and write that as ONNX with torch.onnx.export; of a Hugging Face model: "
     "optimum-cli export onnx --model FOLDER OUT"},
    {"gguf", "GGUF", 0, "a file of llama.cpp: weights without a graph",
     "write the model that it was made from as ONNX: optimum-cli export onnx --model NAME OUT, or torch.onnx.export"},
    {"tflite", "TFL3", 4, "a file of TensorFlow Lite",
     "convert it: python -m tf2onnx.convert --tflite m.tflite --output m.onnx"},
    {"ort", "ORTM", 4, "a file of ONNX Runtime's own format",
     "load the .onnx file that it was made from; ONNX Runtime has no way back"},
    {"h5,keras", NULL, 0, "a model of Keras",
     "write it as ONNX in Python: model.export('m.onnx', format='onnx')"},
};
/* clang-format on */
#define FORMATS (sizeof formats / sizeof formats[0])

static bool has_magic(const st_foreign_format *f, const void *bytes, uint64_t size)
{
    const size_t n = f->magic != NULL ? strlen(f->magic) : 0;
    return n != 0 && size >= f->magic_at + n &&
           memcmp((const char *)bytes + f->magic_at, f->magic, n) == 0;
}

const st_foreign_format *st_foreign_format_of(const char *extension, const void *bytes,
                                              uint64_t size)
{
    for (size_t i = 0; extension != NULL && i < FORMATS; i++) {
        if (st_list_has(formats[i].extensions, extension)) {
            return &formats[i];
        }
    }
    for (size_t i = 0; i < FORMATS; i++) {
        if (has_magic(&formats[i], bytes, size)) {
            return &formats[i];
        }
    }
    return NULL;
}
