-- Argo CD ships no script for RayJob, and without one a RayJob has no health at all. This one reads
-- it as Argo CD reads a Job: Progressing until it ends, Suspended where it is (by Kueue, for one),
-- Healthy or Degraded at its end.
--
-- It differs in one thing. A RayJob that a CurationAttempt owns is never Degraded: the operator
-- reads its end, and starts another attempt where one may help. Whether the failure matters is
-- told by the CurationPipeline.
--
-- KubeRay leaves observedGeneration of a RayJob empty, so there is nothing to compare.
local function is_attempts()
  for _, owner in ipairs(obj.metadata.ownerReferences or {}) do
    if owner.kind == "CurationAttempt" then
      return true
    end
  end
  return false
end

local function fail(message)
  if is_attempts() then
    return { status = "Healthy", message = message .. " (what follows is up to its pipeline)" }
  end
  return { status = "Degraded", message = message }
end

local status = obj.status or {}
local spec = obj.spec or {}
local deployment = status.jobDeploymentStatus
local job = status.jobStatus

-- The message of a failed job has up to 20,000 characters of its log; the reason is one word.
if deployment == "Failed" then
  return fail("Failed: " .. (status.reason or "no reason given"))
end
if deployment == "ValidationFailed" then
  return fail(status.message or deployment)
end
-- KubeRay calls complete what has ended, well or not.
if deployment == "Complete" then
  if job == "SUCCEEDED" then
    return { status = "Healthy", message = "Complete: SUCCEEDED" }
  end
  return fail("Complete: " .. (job or "no status of the job"))
end
if deployment == "Suspended" or deployment == "Suspending" or spec.suspend == true then
  return { status = "Suspended", message = "The RayJob is suspended" }
end
if deployment ~= nil and deployment ~= "" then
  return { status = "Progressing", message = deployment }
end
return { status = "Progressing", message = "Waiting for KubeRay" }
