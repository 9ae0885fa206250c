/* The polynomials of gpu_prelude_math.h. Made by tools/gen_gpu_math.py, where the method is;
 * coefficients are not edited here. The figure of each is its error relative to the value. */
#ifndef STATOR_GPU_PRELUDE_POLYNOMIALS_H
#define STATOR_GPU_PRELUDE_POLYNOMIALS_H

/* (e^x - 1 - x) / x^2 for |x| <= ln 2 / 2: degree 10, 2^-58 */
ST_DEVICE double st_poly_expm1(double x)
{
    double y = 2.0914686967466912e-09;
    y = st_fma_f64(y, x, 2.5105217004720745e-08);
    y = st_fma_f64(y, x, 2.755727364311234e-07);
    y = st_fma_f64(y, x, 2.7557255400206422e-06);
    y = st_fma_f64(y, x, 2.480158732554774e-05);
    y = st_fma_f64(y, x, 0.00019841269874820627);
    y = st_fma_f64(y, x, 0.0013888888888883748);
    y = st_fma_f64(y, x, 0.008333333333326136);
    y = st_fma_f64(y, x, 0.04166666666666667);
    y = st_fma_f64(y, x, 0.1666666666666667);
    y = st_fma_f64(y, x, 0.5);
    return y;
}

/* 2/7 + 2/9 z + 2/11 z^2 + ... for z <= 0.0295: degree 7, 2^-54 */
ST_DEVICE double st_poly_log(double x)
{
    double y = 0.10617027726095167;
    y = st_fma_f64(y, x, 0.1047290656570481);
    y = st_fma_f64(y, x, 0.11766049868513863);
    y = st_fma_f64(y, x, 0.13333314680230052);
    y = st_fma_f64(y, x, 0.15384615524876724);
    y = st_fma_f64(y, x, 0.18181818181300985);
    y = st_fma_f64(y, x, 0.22222222222222948);
    y = st_fma_f64(y, x, 0.2857142857142857);
    return y;
}

#endif
