/* A model's texts in generated C; see build.h. Models are hostile: what comes out of here is made
 * of a fixed set of bytes, whatever goes in. */
#include "tools/package/build.h"

#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Keywords of C23 and C++23, and macros that a file which includes the header is likely to have. */
static const char reserved[] =
    "alignas,alignof,and,and_eq,asm,auto,bitand,bitor,bool,break,case,catch,char,char8_t,char16_t,"
    "char32_t,class,co_await,co_return,co_yield,compl,concept,const,const_cast,consteval,constexpr,"
    "constinit,continue,decltype,default,delete,do,double,dynamic_cast,else,enum,explicit,export,"
    "extern,false,final,float,for,fortran,friend,goto,if,import,inline,int,long,module,mutable,"
    "namespace,new,noexcept,not,not_eq,nullptr,operator,or,or_eq,override,private,protected,public,"
    "register,reinterpret_cast,requires,restrict,return,short,signed,sizeof,static,static_assert,"
    "static_cast,struct,switch,template,this,thread_local,throw,true,try,typedef,typeid,typename,"
    "typeof,typeof_unqual,union,unsigned,using,virtual,void,volatile,wchar_t,while,xor,xor_eq,"
    "I,NULL,EOF,SIZE_MAX,WINT_MAX,assert,complex,data,errno,imaginary,linux,noreturn,offsetof,"
    "stderr,"
    "stdin,stdout,unix,i386,near,far,min,max,shape,bytes,sun,mips,arm";

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text);
    const size_t m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_reserved(const char *name)
{
    return st_list_has(reserved, name) || ends_with(name, "_t") || ends_with(name, "_MAX") ||
           ends_with(name, "_MIN") || ends_with(name, "_C") || ends_with(name, "_WIDTH");
}

void build_identifier(const char *text, build_name out)
{
    size_t n = 0;
    if (!is_letter(text[0]) || strncmp(text, "stator_package", 14) == 0) {
        out[n++] = 'x';
        out[n++] = '_';
        text += text[0] == '_';
    }
    for (; *text != '\0' && n < BUILD_NAME_MAX; text++) {
        const char c = is_letter(*text) || is_digit(*text) ? *text : '_';
        /* Two '_' in a row are the C++ implementation's. */
        if (c != '_' || out[n - 1] != '_') {
            out[n++] = c;
        }
    }
    while (n > 1 && out[n - 1] == '_') {
        n--;
    }
    out[n] = '\0';
    if (is_reserved(out)) {
        memcpy(out + n, "_x", 3);
    }
}

static bool is_taken(const char *name, const build_name *others, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(others[i], name) == 0) {
            return true;
        }
    }
    return false;
}

void build_unique(const char *text, const build_name *others, uint32_t n, build_name out)
{
    build_identifier(text, out);
    const size_t len = strlen(out);
    for (uint32_t k = 2; is_taken(out, others, n); k++) {
        (void)snprintf(out + len, sizeof(build_name) - len, "_%u", k);
    }
}

void build_literal(const char *text, st_str *out)
{
    if (text == NULL) {
        st_str_add(out, "NULL");
        return;
    }
    st_str_add(out, "\"");
    for (; *text != '\0'; text++) {
        if (is_letter(*text) || is_digit(*text) || strchr(" _-.,:;+*/%()[]<>=#@", *text) != NULL) {
            st_str_addn(out, text, 1);
        } else { /* three digits: what follows cannot be taken for a fourth */
            st_str_addf(out, "\\%03o", (unsigned)(unsigned char)*text);
        }
    }
    st_str_add(out, "\"");
}

void build_remark(const char *text, st_str *out)
{
    for (size_t i = 0; text[i] != '\0' && i < 200; i++) {
        const bool is_plain =
            is_letter(text[i]) || is_digit(text[i]) || strchr(" _-.,:+()", text[i]) != NULL;
        st_str_addn(out, is_plain ? &text[i] : "-", 1);
    }
}
