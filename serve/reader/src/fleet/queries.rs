//! What Prometheus is asked, in PromQL.
//!
//! Where the recording rules of `deploy/prometheus` are, by these; else by the same expressions in terms of what servers
//! expose, so that a Prometheus without the rules answers as well. Of some thousand devices that takes it seconds.
//!
//! A server that two scrape jobs know has each series twice. So the inner aggregation of every sum and count is a `max` over
//! what makes a device or a process one of its kind.

/// Rows that are asked for of a list that has no bound of its own.
pub(super) const ROWS: usize = 500;

pub(super) const UP: &str = "max by (instance) (ttmem_up)";

/// Targets that do not answer; which are ours is known by the name of their scrape job.
pub(super) const ABSENT: &str = r#"max by (instance) (up{job=~".*ttmem.*"}) == 0"#;

pub(super) const DEVICES: &str = r#"count by (instance) (count by (instance, device) (ttmem_device_charged_bytes{class="dram"}))"#;

/// What can be asked in two ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) charged: &'static str,
    pub(super) capacity: &'static str,
    pub(super) used: &'static str,
    pub(super) full: &'static str,
    pub(super) fullest: &'static str,
    pub(super) fragmented: &'static str,
    pub(super) in_pieces: &'static str,
    pub(super) grown_hour: &'static str,
    pub(super) grown_week: &'static str,
    pub(super) used_week: &'static str,
    /// By the peaks that servers keep, which miss nothing between two scrapes. A peak that was there a week ago
    /// is older than a week, and above the capacity it is a sum over allocators that overlap.
    pub(super) peak_week: &'static str,
}

/// The name of the rule that [`RECORDED`] has shares of.
pub(super) const RECORDED_NAME: &str = "instance_class:ttmem_used:max_ratio";

/// Of the recording rules.
pub(super) const RECORDED: Figures = Figures {
    charged: r#"max by (instance) (instance_class:ttmem_charged_bytes:sum{class="dram"})"#,
    capacity: r#"max by (instance) (instance_class:ttmem_capacity_bytes:sum{class="dram"})"#,
    used: "max by (instance, class) (instance_class:ttmem_used:max_ratio)",
    full: "topk(500, max by (instance, device, class) (instance_device_class:ttmem_used:ratio) >= 0.95)",
    fullest: r#"topk(50, max by (instance, device, class) (instance_device_class:ttmem_used:ratio{class=~"dram|l1"}) > 0)"#,
    fragmented: r#"max by (instance) (instance_class:ttmem_fragmented:max_ratio{class="dram"})"#,
    in_pieces: "topk(500, max by (instance, device, class) (instance_device_class:ttmem_fragmented:ratio) > 0.75)",
    grown_hour: r#"max by (instance) (instance_class:ttmem_charged_bytes:sum{class="dram"}) - max by (instance) (instance_class:ttmem_charged_bytes:sum{class="dram"} offset 1h)"#,
    grown_week: r#"max by (instance) (instance_class:ttmem_charged_bytes:sum{class="dram"}) - max by (instance) (instance_class:ttmem_charged_bytes:sum{class="dram"} offset 1w)"#,
    used_week: "max by (instance, class) (max_over_time(instance_class:ttmem_used:max_ratio[1w]))",
    peak_week: "max by (instance, class) (max_over_time(instance_class:ttmem_peak:max_ratio[1w]) unless max_over_time(instance_class:ttmem_peak:max_ratio[1w]) <= instance_class:ttmem_peak:max_ratio offset 1w)",
};

/// Of what servers expose. The week is exact while the capacity does not change.
pub(super) const EXPOSED: Figures = Figures {
    charged: r#"sum by (instance) (max by (instance, device) (ttmem_device_charged_bytes{class="dram"}))"#,
    capacity: r#"sum by (instance) (max by (instance, device) (ttmem_device_capacity_bytes{class="dram"}))"#,
    used: "max by (instance, class) (1 - ttmem_device_free_bytes / (ttmem_device_capacity_bytes > 0))",
    full: "topk(500, max by (instance, device, class) (1 - ttmem_device_free_bytes / (ttmem_device_capacity_bytes > 0)) >= 0.95)",
    fullest: r#"topk(50, max by (instance, device, class) (1 - ttmem_device_free_bytes{class=~"dram|l1"} / (ttmem_device_capacity_bytes > 0)) > 0)"#,
    fragmented: r#"max by (instance) (1 - ttmem_device_largest_fit_bytes{class="dram"} / (ttmem_device_free_bytes > ttmem_device_capacity_bytes / 50))"#,
    in_pieces: r#"topk(500, max by (instance, device, class) (1 - ttmem_device_largest_fit_bytes{class=~"dram|l1"} / (ttmem_device_free_bytes > ttmem_device_capacity_bytes / 50)) > 0.75)"#,
    grown_hour: r#"sum by (instance) (max by (instance, device) (ttmem_device_charged_bytes{class="dram"})) - sum by (instance) (max by (instance, device) (ttmem_device_charged_bytes{class="dram"} offset 1h))"#,
    grown_week: r#"sum by (instance) (max by (instance, device) (ttmem_device_charged_bytes{class="dram"})) - sum by (instance) (max by (instance, device) (ttmem_device_charged_bytes{class="dram"} offset 1w))"#,
    used_week: "max by (instance, class) (1 - min_over_time(ttmem_device_free_bytes[1w]) / (max_over_time(ttmem_device_capacity_bytes[1w]) > 0))",
    peak_week: "max by (instance, class) ((max_over_time(ttmem_device_peak_bytes[1w]) unless max_over_time(ttmem_device_peak_bytes[1w]) <= ttmem_device_peak_bytes offset 1w) / (max_over_time(ttmem_device_capacity_bytes[1w]) > 0) <= 1)",
};

/// By the server's own count: it begins at 0 with the server, so that `increase` sees the first one.
pub(super) const FAILING: &str =
    "topk(500, max by (instance) (increase(ttmem_failures_total[10m])) > 0)";

pub(super) const FAILED_WEEK: &str = "max by (instance) (increase(ttmem_failures_total[1w]))";

pub(super) const GROWING: &str = "topk(500, ttmem_process_growth_per_mark_bytes > 0)";

pub(super) const GROWING_COUNT: &str = "count by (instance) (max by (instance, pid, name, rank, container, exported_container) (ttmem_process_growth_per_mark_bytes) > 0)";

pub(super) const INCOMPLETE: &str = "max by (instance) (ttmem_incomplete_processes) > 0";

pub(super) const RECORDED_FRAGMENTED_WEEK: &str = r#"max by (instance) (max_over_time(instance_class:ttmem_fragmented:max_ratio{class="dram"}[1w]))"#;

pub(super) const JOBS: &str = r#"topk(500, sum by (exported_job, user, class) (max by (instance, pid, name, rank, container, exported_container, exported_job, user, class) (ttmem_process_charged_bytes{exported_job!="",class=~"dram|l1"})))"#;

pub(super) const JOB_HOSTS: &str = r#"count by (exported_job, user) (count by (exported_job, user, instance) (ttmem_process_charged_bytes{exported_job!=""}))"#;

pub(super) const JOB_GROWTH: &str = r#"sum by (exported_job, user) (max by (instance, pid, name, rank, container, exported_container, exported_job, user) (ttmem_process_growth_per_mark_bytes{exported_job!=""}))"#;

pub(super) const RECORDED_JOB_WEEK: &str =
    r#"max_over_time(workload_class:ttmem_charged_bytes:sum{class="dram"}[1w])"#;
