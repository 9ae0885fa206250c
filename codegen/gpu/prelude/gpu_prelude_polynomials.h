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

/* (sin r / r - 1) / z, z = r^2, for |r| <= pi / 4: degree 6, 2^-54 */
ST_DEVICE double st_poly_sin(double x)
{
    double y = -7.586691094197958e-13;
    y = st_fma_f64(y, x, 1.6058531516797758e-10);
    y = st_fma_f64(y, x, -2.5052106231802837e-08);
    y = st_fma_f64(y, x, 2.7557319219337312e-06);
    y = st_fma_f64(y, x, -0.00019841269841265063);
    y = st_fma_f64(y, x, 0.008333333333333331);
    y = st_fma_f64(y, x, -0.16666666666666666);
    return y;
}

/* (cos r - 1 + z / 2) / z^2, z = r^2, for |r| <= pi / 4: degree 6, 2^-54 */
ST_DEVICE double st_poly_cos(double x)
{
    double y = 4.7458685530816656e-14;
    y = st_fma_f64(y, x, -1.1470460830795304e-11);
    y = st_fma_f64(y, x, 2.0876755790721963e-09);
    y = st_fma_f64(y, x, -2.755731922140179e-07);
    y = st_fma_f64(y, x, 2.4801587301584645e-05);
    y = st_fma_f64(y, x, -0.0013888888888888887);
    y = st_fma_f64(y, x, 0.041666666666666664);
    return y;
}

/* (atan t / t - 1) / z, z = t^2, for |t| <= tan(pi / 8): degree 13, 2^-54 */
ST_DEVICE double st_poly_atan(double x)
{
    double y = 0.011958372270565072;
    y = st_fma_f64(y, x, -0.02727353484766671);
    y = st_fma_f64(y, x, 0.037233742339787025);
    y = st_fma_f64(y, x, -0.04294252451442342);
    y = st_fma_f64(y, x, 0.04754618422446524);
    y = st_fma_f64(y, x, -0.052624536283402454);
    y = st_fma_f64(y, x, 0.05882304610193147);
    y = st_fma_f64(y, x, -0.06666664343202196);
    y = st_fma_f64(y, x, 0.07692307616211806);
    y = st_fma_f64(y, x, -0.09090909089290074);
    y = st_fma_f64(y, x, 0.11111111111090433);
    y = st_fma_f64(y, x, -0.1428571428571415);
    y = st_fma_f64(y, x, 0.19999999999999998);
    y = st_fma_f64(y, x, -0.3333333333333333);
    return y;
}

/* (erf x / x - 2 / sqrt(pi)) / z, z = x^2, for |x| <= 0.5: degree 9, 2^-55 */
ST_DEVICE double st_poly_erf(double x)
{
    double y = 1.3352351102931638e-08;
    y = st_fma_f64(y, x, -1.6289957297318203e-07);
    y = st_fma_f64(y, x, 1.6459902382312906e-06);
    y = st_fma_f64(y, x, -1.492561124922689e-05);
    y = st_fma_f64(y, x, 0.00012055332553017004);
    y = st_fma_f64(y, x, -0.0008548327020585921);
    y = st_fma_f64(y, x, 0.005223977625431185);
    y = st_fma_f64(y, x, -0.026866170645131037);
    y = st_fma_f64(y, x, 0.11283791670955126);
    y = st_fma_f64(y, x, -0.37612638903183754);
    return y;
}

/* erfc(0.65 + u) for |u| <= 0.15: degree 12, 2^-56 of 1 */
ST_DEVICE double st_poly_erfc_0(double x)
{
    double y = -9.170747155876185e-06;
    y = st_fma_f64(y, x, -0.0006782920002432385);
    y = st_fma_f64(y, x, 0.0005468105746715903);
    y = st_fma_f64(y, x, 0.003793361057557366);
    y = st_fma_f64(y, x, -0.005849760241204632);
    y = st_fma_f64(y, x, -0.015164199587233083);
    y = st_fma_f64(y, x, 0.03879840017415554);
    y = st_fma_f64(y, x, 0.033426897397573964);
    y = st_fma_f64(y, x, -0.17265335479761046);
    y = st_fma_f64(y, x, 0.03820991610731922);
    y = st_fma_f64(y, x, 0.4807053961882315);
    y = st_fma_f64(y, x, -0.73954676336651);
    y = st_fma_f64(y, x, 0.35797067264432814);
    return y;
}

/* erfc(1.05 + u) for |u| <= 0.25: degree 15, 2^-59 of 1 */
ST_DEVICE double st_poly_erfc_1(double x)
{
    double y = 6.6180678466237125e-06;
    y = st_fma_f64(y, x, -1.8718460112624324e-05);
    y = st_fma_f64(y, x, -3.371796011942073e-05);
    y = st_fma_f64(y, x, 0.00018279608523032886);
    y = st_fma_f64(y, x, 2.982888399198846e-05);
    y = st_fma_f64(y, x, -0.0012411269573334275);
    y = st_fma_f64(y, x, 0.0012656885573048106);
    y = st_fma_f64(y, x, 0.005486254463093863);
    y = st_fma_f64(y, x, -0.013092760674609799);
    y = st_fma_f64(y, x, -0.00956388924291279);
    y = st_fma_f64(y, x, 0.06704009527811901);
    y = st_fma_f64(y, x, -0.05212554038851996);
    y = st_fma_f64(y, x, -0.15049122771646317);
    y = st_fma_f64(y, x, 0.3934003048189701);
    y = st_fma_f64(y, x, -0.37466695697044766);
    y = st_fma_f64(y, x, 0.13756389390990328);
    return y;
}

/* erfc(1.65 + u) for |u| <= 0.35: degree 16, 2^-59 of 1 */
ST_DEVICE double st_poly_erfc_2(double x)
{
    double y = -4.921259794359633e-07;
    y = st_fma_f64(y, x, -2.8377669237441033e-06);
    y = st_fma_f64(y, x, 9.506477191983055e-06);
    y = st_fma_f64(y, x, 7.746664805415055e-06);
    y = st_fma_f64(y, x, -8.599964432303819e-05);
    y = st_fma_f64(y, x, 9.954488571973225e-05);
    y = st_fma_f64(y, x, 0.0003869311404527933);
    y = st_fma_f64(y, x, -0.0013176718770966614);
    y = st_fma_f64(y, x, 0.00026944024094748074);
    y = st_fma_f64(y, x, 0.0062685091822139655);
    y = st_fma_f64(y, x, -0.01332426794635292);
    y = st_fma_f64(y, x, 5.431202047946826e-05);
    y = st_fma_f64(y, x, 0.04985398625613901);
    y = st_fma_f64(y, x, -0.10985980983257568);
    y = st_fma_f64(y, x, 0.12234107056721262);
    y = st_fma_f64(y, x, -0.07414610337406827);
    y = st_fma_f64(y, x, 0.019624414976639713);
    return y;
}

/* erfc(2.5 + u) for |u| <= 0.50: degree 18, 2^-62 of 1 */
ST_DEVICE double st_poly_erfc_3(double x)
{
    double y = 2.2358770454258854e-08;
    y = st_fma_f64(y, x, -2.2773907846030447e-08);
    y = st_fma_f64(y, x, -1.7852808109317873e-07);
    y = st_fma_f64(y, x, 6.435349640190984e-07);
    y = st_fma_f64(y, x, -1.8156125279425576e-07);
    y = st_fma_f64(y, x, -4.691556842554845e-06);
    y = st_fma_f64(y, x, 1.4080045159285034e-05);
    y = st_fma_f64(y, x, -5.1369055449073354e-06);
    y = st_fma_f64(y, x, -7.88013319837873e-05);
    y = st_fma_f64(y, x, 0.0002502853766461842);
    y = st_fma_f64(y, x, -0.00026067017371749743);
    y = st_fma_f64(y, x, -0.0005424100607727855);
    y = st_fma_f64(y, x, 0.002798490157044802);
    y = st_fma_f64(y, x, -0.006117348213591158);
    y = st_fma_f64(y, x, 0.008622375078479554);
    y = st_fma_f64(y, x, -0.008350089549685143);
    y = st_fma_f64(y, x, 0.005445710575881774);
    y = st_fma_f64(y, x, -0.002178284230352711);
    y = st_fma_f64(y, x, 0.0004069520174449589);
    return y;
}

/* erfc(3.75 + u) for |u| <= 0.75: degree 20, 2^-65 of 1 */
ST_DEVICE double st_poly_erfc_4(double x)
{
    double y = -1.3327771997582756e-11;
    y = st_fma_f64(y, x, -8.632198260469909e-11);
    y = st_fma_f64(y, x, 5.315640258450846e-10);
    y = st_fma_f64(y, x, -8.688969088989968e-10);
    y = st_fma_f64(y, x, -1.696013484380762e-09);
    y = st_fma_f64(y, x, 1.4236005700735669e-08);
    y = st_fma_f64(y, x, -4.259866458897586e-08);
    y = st_fma_f64(y, x, 5.7318816374919804e-08);
    y = st_fma_f64(y, x, 9.015095504523108e-08);
    y = st_fma_f64(y, x, -7.753444022578768e-07);
    y = st_fma_f64(y, x, 2.6033091289159253e-06);
    y = st_fma_f64(y, x, -6.108881346026949e-06);
    y = st_fma_f64(y, x, 1.112822742045683e-05);
    y = st_fma_f64(y, x, -1.627530267091409e-05);
    y = st_fma_f64(y, x, 1.9272721447969715e-05);
    y = st_fma_f64(y, x, -1.837097500218173e-05);
    y = st_fma_f64(y, x, 1.3841239877910489e-05);
    y = st_fma_f64(y, x, -7.969616062283584e-06);
    y = st_fma_f64(y, x, 3.3053707171194673e-06);
    y = st_fma_f64(y, x, -8.814321912326015e-07);
    y = st_fma_f64(y, x, 1.1372725656979665e-07);
    return y;
}

/* erfc(5.25 + u) for |u| <= 0.75: degree 18, 2^-69 of 1 */
ST_DEVICE double st_poly_erfc_5(double x)
{
    double y = 7.254573543264488e-13;
    y = st_fma_f64(y, x, -2.9338911899804323e-12);
    y = st_fma_f64(y, x, 7.50647699224952e-12);
    y = st_fma_f64(y, x, -1.80880178478876e-11);
    y = st_fma_f64(y, x, 3.955151359325045e-11);
    y = st_fma_f64(y, x, -7.485761838543989e-11);
    y = st_fma_f64(y, x, 1.2450451041719158e-10);
    y = st_fma_f64(y, x, -1.8370636159623188e-10);
    y = st_fma_f64(y, x, 2.3965563998509895e-10);
    y = st_fma_f64(y, x, -2.7488484387276335e-10);
    y = st_fma_f64(y, x, 2.753685176416464e-10);
    y = st_fma_f64(y, x, -2.386028218383727e-10);
    y = st_fma_f64(y, x, 1.7640340677947162e-10);
    y = st_fma_f64(y, x, -1.0920053939928933e-10);
    y = st_fma_f64(y, x, 5.511470986096375e-11);
    y = st_fma_f64(y, x, -2.180167986499033e-11);
    y = st_fma_f64(y, x, 6.344139222731942e-12);
    y = st_fma_f64(y, x, -1.2084075178150673e-12);
    y = st_fma_f64(y, x, 1.1310313266887154e-13);
    return y;
}

/* ln gamma(1 + t) / (t (t - 1)) for t = 0.25 + u, |u| <= 0.25: degree 18, 2^-54 */
ST_DEVICE double st_poly_lgamma_1(double x)
{
    double y = 0.0005400456618669027;
    y = st_fma_f64(y, x, -0.0007102371861015961);
    y = st_fma_f64(y, x, 0.0007762940549714509);
    y = st_fma_f64(y, x, -0.0010280800910286677);
    y = st_fma_f64(y, x, 0.0013864205301072363);
    y = st_fma_f64(y, x, -0.0018496904347847685);
    y = st_fma_f64(y, x, 0.002477745448288288);
    y = st_fma_f64(y, x, -0.003338634582905576);
    y = st_fma_f64(y, x, 0.0045268818044181675);
    y = st_fma_f64(y, x, -0.006183969627281457);
    y = st_fma_f64(y, x, 0.008525117357153661);
    y = st_fma_f64(y, x, -0.011888238088044461);
    y = st_fma_f64(y, x, 0.01682767908237518);
    y = st_fma_f64(y, x, -0.024308805042097446);
    y = st_fma_f64(y, x, 0.03615879797539927);
    y = st_fma_f64(y, x, -0.05627340727378555);
    y = st_fma_f64(y, x, 0.09456573803301094);
    y = st_fma_f64(y, x, -0.18455838443681613);
    y = st_fma_f64(y, x, 0.5241164609163369);
    return y;
}

/* ln gamma(2 + t) / (t (t + 1)) for |t| <= 0.5: degree 20, 2^-56 */
ST_DEVICE double st_poly_lgamma_2(double x)
{
    double y = 2.833117923028631e-08;
    y = st_fma_f64(y, x, -5.9191034539430366e-08);
    y = st_fma_f64(y, x, 8.673206020032682e-08);
    y = st_fma_f64(y, x, -1.8231384052730353e-07);
    y = st_fma_f64(y, x, 4.051685729547825e-07);
    y = st_fma_f64(y, x, -8.559853958872399e-07);
    y = st_fma_f64(y, x, 1.8078213149490743e-06);
    y = st_fma_f64(y, x, -3.846729097394708e-06);
    y = st_fma_f64(y, x, 8.22222353897079e-06);
    y = st_fma_f64(y, x, -1.7661749741053172e-05);
    y = st_fma_f64(y, x, 3.816888683930679e-05);
    y = st_fma_f64(y, x, -8.309512065991473e-05);
    y = st_fma_f64(y, x, 0.00018255263918030596);
    y = st_fma_f64(y, x, -0.00040570739776849235);
    y = st_fma_f64(y, x, 0.0009153769222493582);
    y = st_fma_f64(y, x, -0.002108130833949211);
    y = st_fma_f64(y, x, 0.004998641164697329);
    y = st_fma_f64(y, x, -0.012384192193371354);
    y = st_fma_f64(y, x, 0.03296500062115582);
    y = st_fma_f64(y, x, -0.10031730167435392);
    y = st_fma_f64(y, x, 0.42278433509846713);
    return y;
}

/* ln gamma(3 + t) for |t| <= 0.5: degree 18, 2^-54 */
ST_DEVICE double st_poly_lgamma_3(double x)
{
    double y = 1.625557403618081e-10;
    y = st_fma_f64(y, x, -5.169436192365251e-10);
    y = st_fma_f64(y, x, 1.4575185107725173e-09);
    y = st_fma_f64(y, x, -4.680911666121582e-09);
    y = st_fma_f64(y, x, 1.5215365057931877e-08);
    y = st_fma_f64(y, x, -4.9472430226943896e-08);
    y = st_fma_f64(y, x, 1.621602682600119e-07);
    y = st_fma_f64(y, x, -5.370308526488962e-07);
    y = st_fma_f64(y, x, 1.801262823625983e-06);
    y = st_fma_f64(y, x, -6.1408696968364104e-06);
    y = st_fma_f64(y, x, 2.1388274740623788e-05);
    y = st_fma_f64(y, x, -7.668248312418834e-05);
    y = st_fma_f64(y, x, 0.0002863436640749323);
    y = st_fma_f64(y, x, -0.0011355510286742245);
    y = st_fma_f64(y, x, 0.004955808427784546);
    y = st_fma_f64(y, x, -0.025685634386531424);
    y = st_fma_f64(y, x, 0.19746703342411323);
    y = st_fma_f64(y, x, 0.9227843350984671);
    y = st_fma_f64(y, x, 0.6931471805599453);
    return y;
}

/* x (ln gamma(x) - (x - 1/2) ln x + x - ln(2 pi) / 2) for w = 1 / x^2 <= 1 / 64: degree 8, 2^-54 */
ST_DEVICE double st_poly_stirling(double x)
{
    double y = 0.1100155469726067;
    y = st_fma_f64(y, x, -0.027742741357076325);
    y = st_fma_f64(y, x, 0.006383322059271398);
    y = st_fma_f64(y, x, -0.0019172870558704818);
    y = st_fma_f64(y, x, 0.0008417495708290532);
    y = st_fma_f64(y, x, -0.0005952380914267929);
    y = st_fma_f64(y, x, 0.0007936507936450394);
    y = st_fma_f64(y, x, -0.0027777777777777744);
    y = st_fma_f64(y, x, 0.08333333333333333);
    return y;
}

/* Word i of the binary fraction of 2 / pi; 0 before the first. The last is 38. */
ST_DEVICE_CALL st_u32 st_poly_two_over_pi(st_i32 i)
{
    switch (i) {
    case 0:
        return 0xa2f9836eu;
    case 1:
        return 0x4e441529u;
    case 2:
        return 0xfc2757d1u;
    case 3:
        return 0xf534ddc0u;
    case 4:
        return 0xdb629599u;
    case 5:
        return 0x3c439041u;
    case 6:
        return 0xfe5163abu;
    case 7:
        return 0xdebbc561u;
    case 8:
        return 0xb7246e3au;
    case 9:
        return 0x424dd2e0u;
    case 10:
        return 0x06492eeau;
    case 11:
        return 0x09d1921cu;
    case 12:
        return 0xfe1deb1cu;
    case 13:
        return 0xb129a73eu;
    case 14:
        return 0xe88235f5u;
    case 15:
        return 0x2ebb4484u;
    case 16:
        return 0xe99c7026u;
    case 17:
        return 0xb45f7e41u;
    case 18:
        return 0x3991d639u;
    case 19:
        return 0x835339f4u;
    case 20:
        return 0x9c845f8bu;
    case 21:
        return 0xbdf9283bu;
    case 22:
        return 0x1ff897ffu;
    case 23:
        return 0xde05980fu;
    case 24:
        return 0xef2f118bu;
    case 25:
        return 0x5a0a6d1fu;
    case 26:
        return 0x6d367ecfu;
    case 27:
        return 0x27cb09b7u;
    case 28:
        return 0x4f463f66u;
    case 29:
        return 0x9e5fea2du;
    case 30:
        return 0x7527bac7u;
    case 31:
        return 0xebe5f17bu;
    case 32:
        return 0x3d0739f7u;
    case 33:
        return 0x8a5292eau;
    case 34:
        return 0x6bfb5fb1u;
    case 35:
        return 0x1f8d5d08u;
    case 36:
        return 0x56033046u;
    case 37:
        return 0xfc7b6babu;
    case 38:
        return 0xf0cfbc20u;
    default:
        return 0;
    }
}

#endif
