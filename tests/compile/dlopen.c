/* dlopen.c LIBRARY - the shared library as a binding meets it: opened by name at run time, no symbol known before, no struct. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void *library;

/* The address of a function as a pointer to one: C has no cast for that. */
static int find(const char *name, void *function, size_t bytes)
{
    void *symbol = dlsym(library, name);
    if (!symbol || bytes != sizeof symbol) return printf("%s is not there\n", name) < 0;
    memcpy(function, &symbol, bytes);
    return 1;
}
#define FIND(name, function) find(name, &(function), sizeof(function))

int main(int argc, char **argv)
{
    int (*abi)(void), (*set_number)(void *, const char *, double);
    size_t (*size_of)(const char *), (*size_of_float)(const char *);
    void *(*new_handle)(const char *), (*free_handle)(void *);
    const char *(*text)(void *, const char *);
    double (*number)(void *, const char *);
    void *f;
    int good;
    library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return printf("%s\n", dlerror()) >= 0;
    if (!FIND("pu_abi", abi) || !FIND("pu_sizeof", size_of) || !FIND("puf_sizeof", size_of_float)) return 1;
    if (!FIND("pu_flat_new", new_handle) || !FIND("pu_flat_free", free_handle) || !FIND("pu_flat_set_number", set_number)) return 1;
    if (!FIND("pu_flat_text", text) || !FIND("pu_flat_number", number)) return 1;
    if (dlsym(library, "pu__flat_ready")) return printf("a private name is exported\n") >= 0;
    f = new_handle("ppca");
    good = abi() >= 1 && size_of("pu_real") == 8 && size_of_float("pu_real") == 4 && f;
    good = good && set_number(f, "rows", 5) == 0 && set_number(f, "latent", 2) == 0 && !(number(f, "params") < 16);
    good = good && set_number(f, "row", 5) < 0 && strstr(text(f, "explain"), "latent");
    free_handle(f);
    return dlclose(library) != 0 || !good;
}
