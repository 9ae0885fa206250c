/* The losses of a training as a picture, an SVG: a line for the steps, one for the validation set.
 * The scale of losses is logarithmic where they are positive and span more than a decade. */
#include "tools/train/training.h"

#include <math.h>

#define WIDTH 720.0
#define HEIGHT 400.0
#define MARGIN 56.0
#define POINTS_MAX 1200u /* of a line: more than its pixels */
#define TICKS 5u

typedef struct scale {
    double low, high; /* of what is drawn: losses, or their logarithms */
    double last;      /* the last step */
    bool is_log;
} scale;

static double shown(const scale *s, double loss)
{
    return s->is_log ? log10(loss) : loss;
}

static void widen(const train_curve *curve, double *low, double *high)
{
    for (uint32_t i = 0; i < curve->count; i++) {
        if (isfinite(curve->data[i].loss)) {
            *low = fmin(*low, curve->data[i].loss);
            *high = fmax(*high, curve->data[i].loss);
        }
    }
}

static scale scale_of(const train *t)
{
    double low = INFINITY, high = -INFINITY;
    widen(&t->losses, &low, &high);
    widen(&t->validations, &low, &high);
    scale s = {.last = fmax(1, (double)t->at.steps), .is_log = low > 0 && high > 10 * low};
    if (low > high) { /* no loss is finite */
        low = 0;
        high = 1;
    }
    s.low = shown(&s, low);
    s.high = shown(&s, high);
    if (s.high - s.low < 1e-12) {
        s.low -= 0.5;
        s.high += 0.5;
    }
    return s;
}

static double x_of(const scale *s, double step)
{
    return MARGIN + (WIDTH - 2 * MARGIN) * step / s->last;
}

static double y_of(const scale *s, double value)
{
    return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value - s->low) / (s->high - s->low);
}

static void draw_axes(FILE *f, const scale *s)
{
    for (uint32_t k = 0; k < TICKS; k++) {
        const double part = (double)k / (TICKS - 1u);
        const double value = s->low + part * (s->high - s->low), y = y_of(s, value);
        const double step = round(part * s->last);
        (void)fprintf(f,
                      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n"
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.3g</text>\n"
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>\n",
                      MARGIN, y, WIDTH - MARGIN, y, MARGIN - 6, y + 4,
                      s->is_log ? pow(10, value) : value, x_of(s, step), HEIGHT - MARGIN + 18,
                      step);
    }
}

/* Every k-th point of a long curve, and the last one. */
static void draw_curve(FILE *f, const scale *s, const train_curve *curve, const char *colour)
{
    const uint32_t stride = curve->count / POINTS_MAX + 1u;
    (void)fprintf(f, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"",
                  colour);
    for (uint32_t i = 0; i < curve->count; i++) {
        const train_point *p = &curve->data[i];
        if (isfinite(p->loss) && (i % stride == 0 || i + 1u == curve->count)) {
            (void)fprintf(f, "%.2f,%.2f ", x_of(s, (double)p->step), y_of(s, shown(s, p->loss)));
        }
    }
    (void)fprintf(f, "\"/>\n");
}

cli_status train_plot(const train *t, const char *path)
{
    const scale s = scale_of(t);
    st_out_file out;
    CLI_NEED(cli_file_open(&out, path, t->settings->common.json));
    (void)fprintf(out.file,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                  WIDTH, HEIGHT);
    draw_axes(out.file, &s);
    draw_curve(out.file, &s, &t->losses, "#1f77b4");
    (void)fprintf(out.file, "<text x=\"%.1f\" y=\"24\" fill=\"#1f77b4\">loss of a step</text>\n",
                  MARGIN);
    if (t->validations.count != 0) {
        draw_curve(out.file, &s, &t->validations, "#d62728");
        (void)fprintf(out.file, "<text x=\"%.1f\" y=\"24\" fill=\"#d62728\">validation</text>\n",
                      MARGIN + 120);
    }
    (void)fprintf(out.file,
                  "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n</svg>\n",
                  WIDTH / 2, HEIGHT - 12);
    return cli_file_close(&out, t->settings->common.json) ? CLI_OK : CLI_FAILED;
}
