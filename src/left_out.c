/* left_out.c - what the libraries would bring into the static program for nobody's use: 600 KB of 4 MB.
 *
 * An archive's member is linked only if it defines a name that is still missing. By these names SQLite asks for its full-text
 * search, its R-trees and the functions of trigonometry in SQL; defined here, they bring nothing along.
 * Where a library comes in other pieces this file has less effect, or none. tests/checks/size.py sees to it that neither our SQL
 * nor our C begins to use one.
 *
 * Nobody gives SQL to tasuki but tasuki. A damaged database could name one of these all the same, so they do no harm: a
 * function answers NULL (which is what SQLite makes of NaN), a table of such a kind is not known. */
#include <math.h>

struct sqlite3;

/* ---- SQLite: kinds of tables, made known to every new connection; 0 is success --------------------------------- */

int sqlite3Fts3Init(struct sqlite3 *db);
int sqlite3Fts5Init(struct sqlite3 *db);
int sqlite3RtreeInit(struct sqlite3 *db);

int sqlite3Fts3Init(struct sqlite3 *db)
{
    (void)db;
    return 0;
}

int sqlite3Fts5Init(struct sqlite3 *db)
{
    (void)db;
    return 0;
}

int sqlite3RtreeInit(struct sqlite3 *db)
{
    (void)db;
    return 0;
}

/* ---- libm: SQL's functions of the same names, each with tables for three kinds of processors ------------------- */

#define NOT_A_NUMBER(name)                                                                                             \
    double name(double x)                                                                                              \
    {                                                                                                                  \
        (void)x;                                                                                                       \
        return NAN;                                                                                                    \
    }

NOT_A_NUMBER(acos)
NOT_A_NUMBER(acosh)
NOT_A_NUMBER(asin)
NOT_A_NUMBER(asinh)
NOT_A_NUMBER(atan)
NOT_A_NUMBER(atanh)
NOT_A_NUMBER(cos)
NOT_A_NUMBER(cosh)
NOT_A_NUMBER(exp)
NOT_A_NUMBER(log)
NOT_A_NUMBER(sin)
NOT_A_NUMBER(sinh)
NOT_A_NUMBER(tan)
NOT_A_NUMBER(tanh)

double atan2(double y, double x)
{
    (void)y;
    (void)x;
    return NAN;
}
