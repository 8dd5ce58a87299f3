//! What every figure means: one word, one meaning, the same on every screen.
//!
//! A row is all that a word needs: the help shows it, under its views or among the others. Words of
//! the runtime are written as the runtime writes them.

macro_rules! words {
    ($($word:ident $term:literal $meaning:literal)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Word {
            $(#[doc = $meaning] $word,)*
        }

        impl Word {
            /// All of them, in the order in which they explain each other.
            pub(crate) const ALL: &[Self] = &[$(Self::$word,)*];

            pub(crate) const fn term(self) -> &'static str {
                match self { $(Self::$word => $term,)* }
            }

            pub(crate) const fn meaning(self) -> &'static str {
                match self { $(Self::$word => $meaning,)* }
            }
        }
    };
}

words! {
    Requested "requested"
        "what the caller asked for: the size of a buffer, without what the allocator adds"
    Charged "charged"
        "what the allocator takes for a buffer: bytes per bank, aligned, times banks, also on banks \
         that hold no data of it. Equals the allocator's own statistics, allocator by allocator"
    Registered "registered"
        "circular buffers or kernels of every live program, cached ones included: bytes times cores \
         of each. Programs share addresses, so the sum may be above what is there"
    Resident "resident"
        "per core, what belongs to the last program that was dispatched to it: its circular buffers, \
         dataflow buffers, scratchpads, kernels. Of a device: the sum over its cores"
    Occupied "occupied"
        "per core, the union of the reserved region, L1 and L1_SMALL buffers, and resident circular \
         buffers, dataflow buffers and scratchpads: what lies at one address counts once. Of a \
         device: the sum over its cores, never above physical"
    Reserved "reserved"
        "the bottom of L1 on every core, which the runtime takes before any allocator; the config \
         ring with the kernels lies in it"
    Capacity "capacity"
        "what an allocator can hand out, as the runtime reports it: banks times bank size"
    Physical "physical"
        "what is there: compute cores times the L1 of a core"
    Peak "peak"
        "the exact maximum, kept with every event, and when it was: since the server saw the device, of \
         each process also after its end, and since each mark"
    Bank "bank"
        "a part of memory with addresses of its own: of DRAM a channel or half of one, of L1 a core. \
         A buffer has the same address in each of its banks"
    LargestFit "largest fit"
        "the largest interleaved request that the allocator would grant now: the largest free block of \
         a bank, times banks. A larger one is refused, however much is free in all"
    Fragmentation "fragmented"
        "1 - largest fit / free: 0% when all that is free is one block, near 100% when it is many small \
         ones"
    Overlap "overlap"
        "charged bytes that several allocators handed out at one place; percentages count them once"
    Checked "checked"
        "whether the charged bytes were compared with the runtime's own allocator statistics: equal, \
         different, or not checked"
    Incomplete "incomplete"
        "the figures of this process may not be all that it has: reports were lost or refused, or \
         something is not tracked"
    Anomaly "anomalies"
        "what did not add up, by kind and count: a free of something never allocated, two buffers at \
         one place"
    Stale "stale"
        "the server has not answered for a while: the figures are those of then"
    Classes "classes"
        "DRAM, L1, L1_SMALL (a region of L1), TRACE (a region of DRAM, for traces), SYSTEM (host \
         memory: never counted as L1)"
    Cb "CBs"
        "circular buffers, dataflow buffers and scratchpads of the programs that are resident: bytes at one address on every core of a \
         program, which no allocator knows. A global or borrowing one lies inside an L1 buffer and \
         adds nothing to occupied"
    Headroom "CB headroom"
        "bytes per core between the end of the resident program's circular buffers and the lowest L1 \
         buffer, on the tightest core. No allocator knows it: a tensor can be granted, and the next \
         program then clashes"
    Clash "clash"
        "the circular buffers of a program would reach into an L1 buffer, or beyond L1: the runtime \
         refuses to run it"
    AllocationFailed "allocation failed"
        "the allocator refused a buffer: no bank has a free block of the bytes it needs in each"
    Kernels "kernels"
        "kernel code: bytes times cores. By kind: application, fabric, dispatch; by core: Tensix, \
         active and idle Ethernet, DRAM. It lies in the reserved region, or on cores beside the \
         compute grid, and adds nothing to occupied"
    Shared "unique, shared"
        "unique counts each kernel once, however many programs have it; shared is what is registered \
         beyond that"
    Dispatch "dispatches"
        "how often programs were sent to run, from the cache or not"
    BinaryState "binary state"
        "where the binary of a program is, for each device: not sent, in flight, committed"
    ConfigRing "config ring"
        "a ring in the reserved region of every core, with code and arguments of the programs that \
         ran last. It wraps, evicts the oldest, and stalls when a program must wait for room"
    Prefetcher "prefetcher cache"
        "programs that the prefetcher keeps: a hit is one that was there, a miss was read from DRAM"
    Caches "caches"
        "program cache: the operation found its program. Binary reuse: the binary was on the device. \
         Prefetch: the program was in the prefetcher cache. JIT: the compiled kernel was on disk"
    Trace "trace"
        "commands recorded once and run many times; they lie in the TRACE region until released"
    Recorded "recorded"
        "of an instant of a recording, not of now: ages and alerts are counted back from it, and graphs end \
         there. The line above the keys is the whole recording, with ' for marks, a triangle for peaks and ! for \
         failures"
    RecordedPeak "p"
        "goes to the highest total of the device and class that the view shows; of DRAM on any device where it \
         shows none. p again goes to that of the next class"
    Mesh "mesh"
        "the devices that a program opened together; each mesh has allocators of its own"
    Mark "mark"
        "a moment with a name: peaks, and what grew, are counted from it as well"
    LeakCandidate "leak candidate"
        "a buffer that was still held when its mesh was closed in good order"
    Released "held at exit"
        "what a process held when it ended: its buffers, and apart from them its programs' storage. All \
         of it was released at once"
    Recovered "recovered"
        "R: the process died before it could send the event; it was read from the memory that the \
         process left"
    Missed "missed"
        "events of the stream that did not reach this screen: they came too fast, or while it was \
         not connected. The figures of all other views include them"
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_term_is_explained_twice_and_every_meaning_is_plain() {
        let mut terms = HashSet::new();
        for word in Word::ALL {
            assert!(terms.insert(word.term().to_lowercase()), "{}", word.term());
            let meaning = word.meaning();
            assert!(meaning.len() > 20, "{meaning}");
            assert!(
                !meaning.ends_with('.') && !meaning.contains("  "),
                "{meaning}"
            );
            assert!(meaning.is_ascii(), "shown on every terminal: {meaning}");
        }
    }
}
