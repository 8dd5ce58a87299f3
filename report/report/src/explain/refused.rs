//! An allocator refused a request: is there too little, or too little in one piece?

use crate::explain::bank::Bank;
use crate::explain::holders;
use crate::explain::holders_unknown;
use crate::explain::moment::{BelowLimit, Caller, Moment, Refused};
use crate::explain::setting::{self, Doubt};
use crate::explain::words;
use crate::{
    BlockOwner, Explanation, FailedRequest, HeldBlock, MemoryClass, Release, Verdict, short_line,
    size_text,
};

pub(crate) fn explain(moment: &Moment, refused: &Refused, explanation: &mut Explanation) {
    let bank = refused.table.as_ref().map(Bank::new);
    let request = completed(refused, bank.as_ref(), &mut explanation.unknown);
    let refused = Refused {
        request: request.clone(),
        ..refused.clone()
    };
    explanation.verdict = verdict(&refused);
    explanation.sentence = sentence(moment, &refused, explanation.verdict);
    match &bank {
        Some(bank) => {
            explanation.holders = Some(holders::groups(bank.blocks()));
            // A region that is too small is made larger: what lies there is meant to stay.
            if explanation.verdict != Verdict::RegionTooSmall {
                what_to_release(bank, &moment.caller, &refused, explanation);
            }
        }
        None => explanation.unknown.push(holders_unknown(moment.witness)),
    }
    advise(&refused, explanation);
    if let Some(need) = request.need_bytes_per_bank
        && let Some((setting, doubt)) = setting::for_request(&refused, need)
    {
        advise_setting(&setting, doubt, explanation);
        let sentence = explanation.sentence.trim_end_matches('.');
        explanation.sentence = format!("{sentence}{}", setting::needed(&setting));
        explanation.setting = Some(setting);
    } else if is_region(request.class) {
        let name = match request.class {
            Some(MemoryClass::Trace) => "trace_region_size",
            _l1_small => "l1_small_size",
        };
        explanation.unknown.push(format!(
            "which {name} is needed: the message does not say what the region had"
        ));
    }
    explanation.request = Some(request);
}

/// A region is set aside when the device is opened, and nothing else can use it.
fn is_region(class: Option<MemoryClass>) -> bool {
    matches!(class, Some(MemoryClass::L1Small | MemoryClass::Trace))
}

/// The request with what the block table adds. What the allocator itself said is never replaced.
fn completed(
    refused: &Refused,
    bank: Option<&Bank<'_>>,
    unknown: &mut Vec<String>,
) -> FailedRequest {
    let mut request = refused.request.clone();
    if request.need_bytes_per_bank.is_none()
        && let (Some(requested), Some(banks)) = (request.requested_bytes, request.banks)
        && banks > 0
    {
        request.need_bytes_per_bank = Some(requested.div_ceil(u64::from(banks)));
    }
    let Some(bank) = bank else {
        return request;
    };
    let (free, largest) = (bank.free_bytes(), bank.largest_free_bytes());
    if let (Some(said_free), Some(said_largest)) = (
        request.free_bytes_per_bank,
        request.largest_free_bytes_per_bank,
    ) && (said_free, said_largest) != (free, largest)
    {
        unknown.push(format!(
            "all of the bank: by its blocks {free} B are free and {largest} B in one piece, the \
             allocator says {said_free} B and {said_largest} B"
        ));
    }
    request
        .bank_bytes
        .get_or_insert(refused.table.as_ref().map_or(0, |table| table.bank_bytes));
    request
        .allocated_bytes_per_bank
        .get_or_insert(bank.allocated_bytes());
    request.free_bytes_per_bank.get_or_insert(free);
    request.largest_free_bytes_per_bank.get_or_insert(largest);
    request
}

fn verdict(refused: &Refused) -> Verdict {
    let request = &refused.request;
    let too_little = if is_region(request.class) {
        Verdict::RegionTooSmall
    } else {
        Verdict::Capacity
    };
    let Some(need) = request.need_bytes_per_bank else {
        return Verdict::Unknown;
    };
    if request.bank_bytes.is_some_and(|bank| need > bank) {
        return too_little;
    }
    match (
        request.free_bytes_per_bank,
        request.largest_free_bytes_per_bank,
    ) {
        (Some(free), _) if free < need => too_little,
        (Some(_enough), Some(largest)) if largest < need => Verdict::Fragmentation,
        _undecided => Verdict::Unknown,
    }
}

fn sentence(moment: &Moment, refused: &Refused, verdict: Verdict) -> String {
    let request = &refused.request;
    let place = words::place(request.class);
    let who = words::who(&moment.caller);
    let banks = words::banks(request.banks);
    if let Some(below) = refused.below_limit {
        return below_limit(&place, &who, below);
    }
    let Some(need) = request.need_bytes_per_bank else {
        let asked = request.requested_bytes.map_or_else(String::new, |bytes| {
            format!(" of {} over all banks", size_text(bytes))
        });
        return format!("{place} could not hold {who}{asked}; the message says nothing more.");
    };
    let (free, largest, bank) = (
        request.free_bytes_per_bank,
        request.largest_free_bytes_per_bank,
        request.bank_bytes,
    );
    match (verdict, free, largest, bank) {
        (Verdict::Fragmentation, Some(free), Some(largest), _) => {
            let [need, free, largest] = words::sizes([need, free, largest]);
            format!(
                "{place} is fragmented: {who} needs {need} in one piece in {banks}; {free} are \
                 free, but the largest free block is {largest}."
            )
        }
        (Verdict::Capacity | Verdict::RegionTooSmall, _, _, Some(bank)) if need > bank => {
            let [need, bank] = words::sizes([need, bank]);
            format!("{place} is too small: {who} needs {need} in {banks}, and a bank has {bank}.")
        }
        (Verdict::Capacity | Verdict::RegionTooSmall, Some(free), ..) => {
            let short = need - free;
            let of = bank.map_or_else(String::new, |bank| format!(" of {}", size_text(bank)));
            let [need, free, short] = words::sizes([need, free, short]);
            format!(
                "{place} is full: {who} needs {need} in {banks}, and {free}{of} are free, {short} \
                 too few."
            )
        }
        (_, Some(_free), Some(largest), _) => {
            let [need, largest] = words::sizes([need, largest]);
            let why = if refused.has_dependencies {
                "buffers of single cores lie where it would go"
            } else {
                "what stood in its way is not known"
            };
            format!(
                "{place} refused {who}, which needs {need} in {banks}, although the largest free \
                 block has {largest}: {why}."
            )
        }
        _free_unknown => format!(
            "{place} could not hold {who}, which needs {} in {banks}; how much was free is not \
             known, so neither is whether it was too little or too scattered.",
            size_text(need)
        ),
    }
}

/// The allocator took a block that the request may not have.
fn below_limit(place: &str, who: &str, below: BelowLimit) -> String {
    let limit = words::address(below.limit);
    match below.address {
        Some(address) => format!(
            "{place} is full for interleaved buffers: {who} would have begun at {}, {} below the \
             lowest address that it may have, {limit}.",
            words::address(address),
            size_text(below.limit.saturating_sub(address)),
        ),
        None => format!(
            "{place} is full for interleaved buffers: {who} would have begun below the lowest \
             address that it may have, {limit}."
        ),
    }
}

fn what_to_release(
    bank: &Bank<'_>,
    caller: &Caller,
    refused: &Refused,
    explanation: &mut Explanation,
) {
    let Some(need) = refused.request.need_bytes_per_bank else {
        return;
    };
    let alignment = refused.alignment.unwrap_or(1);
    // A buffer of the call that failed is gone when the call is: nobody can release it before.
    let is_own = |at: usize| bank.blocks()[at].owner.of_call;
    let Some(run) = bank.smallest_release(need, alignment, is_own) else {
        explanation.advice.extend(own_blocks(bank, refused));
        return;
    };
    if run.is_empty() {
        return;
    }
    let release = bank.release(&run, caller);
    if explanation.verdict == Verdict::Capacity {
        let most = who_holds_most(explanation, release.buffers);
        explanation.advice.extend(most);
    }
    explanation.map = Some(bank.map(&run));
    explanation.advice.push(release_advice(&release));
    let stays = |at: usize| is_own(at) || run.contains(&at);
    let other = bank.smallest_release(need, alignment, stays);
    let other = other.map(|run| bank.release(&run, caller));
    if let Some(other) = &other {
        let advice = release_advice(other);
        explanation.advice.push(format!("or {advice}"));
    }
    explanation.other_release = other;
    explanation.release = Some(release);
}

/// What the call that failed holds itself, where no release of other buffers is enough; none if the
/// request is larger than a whole bank, which is advice enough.
fn own_blocks(bank: &Bank<'_>, refused: &Refused) -> Option<String> {
    let request = &refused.request;
    if request.need_bytes_per_bank > request.bank_bytes {
        return None;
    }
    let own = bank.blocks().iter().filter(|block| block.owner.of_call);
    let (number, bytes) = own.fold((0, 0), |(number, bytes), block| {
        (number + 1, bytes + block.size_bytes)
    });
    Some(format!(
        "no release can make it fit: this call itself placed {} with {} per bank. Ask it for less at \
         once, or keep its inputs and its output in DRAM",
        words::buffers(number),
        size_text(bytes)
    ))
}

/// Who holds more than half, unless all of it is about to be proposed for release: memory that is full
/// is full of something, and a single buffer helps only once.
fn who_holds_most(explanation: &Explanation, released: u64) -> Option<String> {
    let holders = explanation.holders.as_deref()?;
    let most = holders.first()?;
    let all = holders.iter().map(|group| group.bytes_per_bank);
    let all = u128::from(all.fold(0, u64::saturating_add));
    let bytes = u128::from(most.bytes_per_bank);
    if bytes * 2 <= all || most.buffers <= released || most.owner.of_call {
        return None;
    }
    let owner = words::owner(&most.owner)?;
    Some(format!(
        "{} of {owner} hold {} per bank, {} % of what is allocated",
        words::buffers(most.buffers),
        size_text(most.bytes_per_bank),
        (bytes * 100 + all / 2) / all,
    ))
}

/// Which buffers, where they begin, and whose they are if all have one line or operation.
fn release_advice(release: &Release) -> String {
    let owner = |block: &HeldBlock| {
        let BlockOwner {
            python, operation, ..
        } = &block.owner;
        let line = python.as_deref().map(short_line).map(str::to_owned);
        line.or_else(|| operation.as_deref().map(words::operation))
    };
    let mut owners = release.blocks.iter().map(owner);
    let first = owners.next().flatten();
    let of = first
        .filter(|first| owners.all(|other| other.as_ref() == Some(first)))
        .map_or_else(String::new, |first| format!(" of {first}"));
    let at = release
        .blocks
        .first()
        .map_or(release.address, |first| first.address);
    format!(
        "release {}{of} at {}, {} per bank, to make it fit, {}",
        words::buffers(release.buffers),
        words::address(at),
        size_text(release.bytes_per_bank),
        release.unless,
    )
}

fn advise(refused: &Refused, explanation: &mut Explanation) {
    let request = &refused.request;
    if refused.below_limit.is_some() {
        explanation
            .unknown
            .push("how much was asked for and how much was free: the message does not say".into());
        return;
    }
    let Some(need) = request.need_bytes_per_bank else {
        return;
    };
    match explanation.verdict {
        Verdict::Capacity if request.bank_bytes.is_some_and(|bank| need > bank) => {
            explanation.advice.push(
                "no release can make it fit: ask for less at once, or spread it over more devices"
                    .to_owned(),
            );
        }
        Verdict::Capacity if explanation.advice.is_empty() => {
            let free = request.free_bytes_per_bank.unwrap_or(0);
            let short = need.saturating_sub(free);
            let in_all = request
                .banks
                .and_then(|banks| short.checked_mul(u64::from(banks)))
                .map_or_else(String::new, |bytes| {
                    format!(", {} in all", size_text(bytes))
                });
            explanation.advice.push(format!(
                "release at least {} per bank{in_all}, of what this call does not use",
                size_text(short)
            ));
        }
        Verdict::Fragmentation if explanation.advice.is_empty() => {
            explanation.advice.push(
                "release a buffer beside a large free block that this call does not use, or allocate \
                 what lives long before what lives short"
                    .to_owned(),
            );
        }
        Verdict::Unknown if request.free_bytes_per_bank.is_none() => {
            explanation.unknown.push(
                "capacity or fragmentation: this message has no figures of what was free; newer \
                 runtimes print them, and `ttmem run` records them"
                    .to_owned(),
            );
        }
        _nothing_more => {}
    }
}

fn advise_setting(setting: &crate::Setting, doubt: Doubt, explanation: &mut Explanation) {
    let typed = setting::typed(setting);
    let advice = setting::advice(setting, "what is put there later");
    explanation.advice.push(advice);
    match doubt {
        Doubt::None => {}
        Doubt::HoleAtTheEnd => explanation.unknown.push(format!(
            "where the free block lies: {typed} assumes the end of the region, as it is if nothing \
             was released before"
        )),
        Doubt::AtLeast(least) => explanation.unknown.push(format!(
            "the smallest value for it: {typed} is enough wherever the free blocks lie, and at \
             least {least} B per bank are needed"
        )),
        Doubt::TakenUnknown => explanation.unknown.push(format!(
            "the smallest value for it: {typed} is enough however full the region was"
        )),
    }
}
