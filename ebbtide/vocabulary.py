"""Every word that ebbtide puts on, or reads from, cluster objects, and why it is there.

Words that the operator may rename (signal taint key, prevent taint key, node group and zone label) are settings of
`[node-rebalance]`; their defaults are here so that nothing else spells them.
"""

from typing import Final

# --- who writes -------------------------------------------------------------------------------------------------
FIELD_MANAGER_RECONCILER: Final = "ebbtide-reconciler"
FIELD_MANAGER_CERTS: Final = "ebbtide-webhook-certs"
FIELD_MANAGER_AGENT: Final = "ebbtide-agent"

# --- nodes ------------------------------------------------------------------------------------------------------
# Set by aws-node-termination-handler in IMDS mode, whose value is a hash and no time, and by `ebbtide agent` and the
# reader of the queue, whose value is the epoch second of the recommendation.
SIGNAL_TAINT_KEY: Final = "aws-node-termination-handler/rebalance-recommendation"
# The only effect that we give it; one under that key with another effect is a signal, too, and somebody else's.
SIGNAL_TAINT_EFFECT: Final = "NoSchedule"
# Ours: the Cluster Autoscaler copies taints of an existing node into its template and so stops growing the group.
PREVENT_TAINT_KEY: Final = "ebbtide/prevent-ca-scale-up"
# The only effect that the prevent taint is ever given; another effect under this key is somebody else's.
PREVENT_TAINT_EFFECT: Final = "NoSchedule"
# Cluster Autoscaler marks a node with this key when it is about to remove it; the value is epoch seconds.
TO_BE_DELETED_TAINT_KEY: Final = "ToBeDeletedByClusterAutoscaler"

NODE_GROUP_LABEL: Final = "serverless.tidbcloud.com/node"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
# Kubernetes before 1.17 wrote only this one; some clouds still carry it.
ZONE_LABEL_FALLBACK: Final = "failure-domain.beta.kubernetes.io/zone"

# What a local volume is pinned by; its value is the node's name almost everywhere.
HOSTNAME_LABEL: Final = "kubernetes.io/hostname"

# Durable clock of a signal whose taint carries no time: written once, removed together with the signal.
FIRST_SEEN_ANNOTATION: Final = "ebbtide/rebalance-signal-first-seen"
# Which rebalance recommendation was told last with the signal taint (RFC 3339): for it the taint is set only once, so
# that whoever takes it away has the last word.
REBALANCE_NOTICE_ANNOTATION: Final = "ebbtide/rebalance-notice"
# When AWS takes the node's instance (RFC 3339), two minutes after it has said so. Such a signal is certain.
INTERRUPTION_NOTICE_ANNOTATION: Final = "ebbtide/interruption-notice"
# Operator's override on a node (its cell is never blocked) or a namespace (its pods are never evicted).
BLOCK_ANNOTATION: Final = "ebbtide/block"
BLOCK_IGNORE: Final = "ignore"

# --- pods and workload objects ----------------------------------------------------------------------------------
POOL_LABEL: Final = "ebbtide/pool"
POOL_SHARED: Final = "shared"
NODE_GROUP_PIN_LABEL: Final = "ebbtide/node-group"
# Opts a pod, or every pod of a namespace, in to being kept out of blocked zones; on a pod also out again.
GUARD_LABEL: Final = "ebbtide/guard"
GUARD_ENABLED: Final = "enabled"
GUARD_DISABLED: Final = "disabled"
BLOCKED_ZONES_ANNOTATION: Final = "ebbtide/blocked-zones"
BUSY_LABEL: Final = "ebbtide/busy"
# The kubelet puts this on the API's mirror of a static pod; evicting the mirror does nothing to the pod.
MIRROR_POD_ANNOTATION: Final = "kubernetes.io/config.mirror"

# --- load-data workers --------------------------------------------------------------------------------------------
POOL_DEDICATED: Final = "dedicated"
# Tells the pods of one worker, or of the pool, from all others: the name of their set.
SERVICE_LABEL: Final = "app.kubernetes.io/service"
# On the StatefulSet of a dedicated worker: whose it is. Names may be shortened, so no id is ever read from one.
TASK_ID_ANNOTATION: Final = "ebbtide/task-id"
DATA_SIZE_ANNOTATION: Final = "ebbtide/data-size"
# Also on what the shared pool keeps: the cluster that its tasks belong to.
CLUSTER_ID_ANNOTATION: Final = "ebbtide/cluster-id"
# On the claims of a dedicated worker: the name of its set, so that disks are found whose set has gone.
WORKER_LABEL: Final = "ebbtide/worker"
# Since when (RFC 3339) a dedicated worker is known to have run its task. Such a worker is kept while its pod is away:
# its client never comes back to ask for another.
TASK_SEEN_ANNOTATION: Final = "ebbtide/task-seen"
# Operator's brake on the shared pool's StatefulSet: nothing is scaled while it is there.
PAUSED_ANNOTATION: Final = "ebbtide/paused"
# On the same set, a fingerprint of what was asked for when it was made or changed: what the server and admission have
# added since is no difference.
POOL_SPEC_ANNOTATION: Final = "ebbtide/pool-spec"
# On the same set: the last process that made sure that no write of an earlier one is still under way.
FENCED_BY_ANNOTATION: Final = "ebbtide/fenced-by"
# On the Lease: where the leader answers load-data requests, for the replicas that do not lead.
LOAD_DATA_URL_ANNOTATION: Final = "ebbtide/load-data-url"
# The Cluster Autoscaler removes no node with a pod that says so; a worker's volumes and tasks would go with it.
SAFE_TO_EVICT_ANNOTATION: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
# The one disruption budget over busy pods, in the workers' namespace.
BUSY_BUDGET: Final = "ebbtide-busy-workers"
# What follows the pool's name in that of the object that holds its promises.
LEDGER_SUFFIX: Final = "-ledger"
# What a worker reads: that it is one (it never redirects then), and how many workers its process runs.
WORKER_ENV: Final = "TIKV_LOAD_DATA_WORKER"
WORKER_NUM_ENV: Final = "TIKV_LOAD_DATA_WORKER_WORKER_NUM_ENV"

# --- certificates of the webhook ----------------------------------------------------------------------------------
# On the Secret that we make: without it a Secret of that name is somebody else's and is left alone.
CERTS_LABEL: Final = "ebbtide/certs"
CERTS_SELF_MANAGED: Final = "self-managed"
# Which step of a rotation the Secret is in, for people; the Secret's content is what decides.
CERTS_STEP_ANNOTATION: Final = "ebbtide/certs-step"
# Since when a new CA is known to be in every caBundle (RFC 3339); leaves are issued by it a while after that.
CERTS_PUBLISHED_ANNOTATION: Final = "ebbtide/certs-published-at"
# When the last leaf of the CA that issues ends, and until when the CA before it stays published (RFC 3339).
CERTS_LAST_LEAF_ANNOTATION: Final = "ebbtide/certs-last-leaf-ends"
CERTS_OLD_UNTIL_ANNOTATION: Final = "ebbtide/certs-old-until"
# Somebody asks for a new "ca" or "leaf"; taken away when it is made.
CERTS_ROTATE_ANNOTATION: Final = "ebbtide/certs-rotate"
# A webhook replica writes on its own pod which CAs it knows and who issued the leaf that it serves.
CA_SEEN_ANNOTATION: Final = "ebbtide/ca-seen"
# What the pods of the webhook are selected by.
WEBHOOK_PODS: Final = "app.kubernetes.io/name=ebbtide,app.kubernetes.io/component=webhook"
