/* The limit of one-sided transfers: the same requests as mooncake-fabric's, in a bare loop on the same library.
 *
 *   cc -O2 -o fabric_raw bench/fabric_raw.c -lfabric
 *   fabric_raw PROVIDER DEVICE CASE...       a CASE is OPERATION:BYTES:REQUESTS:ROUNDS; DEVICE may be empty
 *
 * A child process lends memory, and calls the provider all the time. This one keeps REQUESTS of BYTES in flight, waits for
 * all of them, and prints a line for each case: the case, the median time of a round in us, and GB/s.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MEMORY (64UL << 20)
#define MOST 256

#define CHECK(call)                                                                        \
    do {                                                                                   \
        long status_ = (long)(call);                                                       \
        if (status_ < 0) {                                                                 \
            fprintf(stderr, "%s: %s\n", #call, fi_strerror((int)-status_));                \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

struct side {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_ep *ep;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_mr *mr;
    char *memory;
};

/* What the lender tells: its address, and how its memory is reached. */
struct told {
    size_t len;
    char address[256];
    uint64_t base, key;
};

static double now_us(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static void open_side(struct side *side, const char *provider, const char *device)
{
    struct fi_info *hints = fi_allocinfo(), *found;
    struct fi_av_attr av = {.type = FI_AV_TABLE};
    struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT, .size = 2 * MOST};
    hints->caps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->tx_attr->op_flags = FI_DELIVERY_COMPLETE;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->domain_attr->name = *device ? strdup(device) : NULL;
    CHECK(fi_getinfo(FI_VERSION(1, 14), NULL, NULL, 0, hints, &found));
    while (found->next && *device && strcmp(found->domain_attr->name, device))
        found = found->next;
    side->info = found;
    CHECK(fi_fabric(found->fabric_attr, &side->fabric, NULL));
    CHECK(fi_domain(side->fabric, found, &side->domain, NULL));
    CHECK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
    CHECK(fi_av_open(side->domain, &av, &side->av, NULL));
    CHECK(fi_endpoint(side->domain, found, &side->ep, NULL));
    CHECK(fi_ep_bind(side->ep, &side->av->fid, 0));
    CHECK(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    CHECK(fi_enable(side->ep));
    side->memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(side->memory, 1, MEMORY);
    CHECK(fi_mr_reg(side->domain, side->memory, MEMORY,
                    FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 77, 0, &side->mr, NULL));
}

static void lend(const char *provider, const char *device, int pipe)
{
    struct side side;
    struct told told = {.len = sizeof(told.address)};
    struct fi_cq_entry entry;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    open_side(&side, provider, device);
    CHECK(fi_getname(&side.ep->fid, told.address, &told.len));
    told.base = side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uint64_t)side.memory : 0;
    told.key = fi_mr_key(side.mr);
    if (write(pipe, &told, sizeof(told)) != sizeof(told))
        exit(1);
    for (;;)
        fi_cq_read(side.cq, &entry, 1);
}

static int by_size(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;
    return (difference > 0) - (difference < 0);
}

static int take(struct side *side)
{
    struct fi_cq_entry entries[64];
    ssize_t count = fi_cq_read(side->cq, entries, 64);
    if (count == -FI_EAGAIN)
        return 0;
    CHECK(count);
    return (int)count;
}

static void measure(struct side *side, const struct told *told, fi_addr_t peer, const char *wanted)
{
    static struct fi_context2 contexts[MOST];
    char operation[16];
    size_t bytes;
    int requests, rounds;
    if (sscanf(wanted, "%15[^:]:%zu:%d:%d", operation, &bytes, &requests, &rounds) != 4 || requests > MOST) {
        fprintf(stderr, "no case: %s\n", wanted);
        exit(1);
    }
    int is_read = !strcmp(operation, "read");
    void *desc = fi_mr_desc(side->mr);
    double *spent = calloc(rounds, sizeof(*spent)), total = 0;
    size_t windows = MEMORY / bytes, window = 0;
    for (int round = -rounds / 10 - 1; round < rounds; round++) {
        double begun = now_us();
        int posted = 0, ended = 0;
        while (ended < requests) {
            while (posted < requests) {
                size_t at = window % windows * bytes;
                ssize_t status =
                    is_read ? fi_read(side->ep, side->memory + at, bytes, desc, peer, told->base + at,
                                      told->key, &contexts[posted])
                            : fi_write(side->ep, side->memory + at, bytes, desc, peer, told->base + at,
                                       told->key, &contexts[posted]);
                if (status == -FI_EAGAIN)
                    break;
                CHECK(status);
                posted++, window++;
            }
            ended += take(side);
        }
        if (round >= 0)
            total += spent[round] = now_us() - begun;
    }
    qsort(spent, rounds, sizeof(*spent), by_size);
    printf("%s %.2f %.3f\n", wanted, spent[rounds / 2], (double)bytes * requests * rounds / total / 1e3);
    fflush(stdout);
    free(spent);
}

int main(int count, char **words)
{
    struct side side;
    struct told told;
    int ends[2];
    fi_addr_t peer;
    if (count < 4 || pipe(ends))
        return 2;
    pid_t child = fork();
    if (child == 0)
        lend(words[1], words[2], ends[1]);
    if (read(ends[0], &told, sizeof(told)) != sizeof(told))
        return 1;
    open_side(&side, words[1], words[2]);
    if (fi_av_insert(side.av, told.address, 1, &peer, 0, NULL) != 1)
        return 1;
    for (int at = 3; at < count; at++)
        measure(&side, &told, peer, words[at]);
    kill(child, SIGKILL);
    return 0;
}
