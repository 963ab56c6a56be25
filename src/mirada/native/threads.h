/* Threads of OpenMP, which PyTorch has loaded already; one thread where it is not available. */

#ifndef MIRADA_THREADS
#define MIRADA_THREADS

#ifdef _OPENMP
#include <omp.h>
#define this_thread() omp_get_thread_num()
#else
#define this_thread() 0
#endif

#endif
